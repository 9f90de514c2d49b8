"""Secrets out of text: environment values, arguments, log lines, URLs and messages, masked before they are kept.

Names always stay and only values go, so that a reader still sees that a setting exists. Token formats are those
that their issuers publish (Hugging Face, OpenAI, GitHub, GitLab, Slack, AWS, Google, NVIDIA NGC, npm, Docker Hub,
HashiCorp Vault; RFC 7519 for JSON Web Tokens).
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

MASKED = "[masked]"
"""What stands where a secret stood."""

_SHOWN_ENV = re.compile(
    r"(?:NCCL|TORCH|TORCHELASTIC|PYTORCH|PET|XLA|VLLM|GLOO|UCX|FI|OMPI_MCA|NVSHMEM|CUDA|NVIDIA|DCGM_EXPORTER|GFD|LWS"
    r"|ACCELERATE|TRITON)_\w+"
    r"|MASTER_(?:ADDR|PORT)|(?:LOCAL_|NODE_|GROUP_)?(?:WORLD_SIZE|RANK)|NNODES|NPROC_PER_NODE|JOB_COMPLETION_INDEX"
    r"|(?:OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS|TOKENIZERS_PARALLELISM|PYTHONUNBUFFERED|LD_LIBRARY_PATH|TF_CONFIG"
    r"|HF_(?:HOME|HUB_OFFLINE|HUB_CACHE|HUB_DISABLE_XET|HUB_ENABLE_HF_TRANSFER|HUB_DOWNLOAD_TIMEOUT)"
    r"|TRANSFORMERS_(?:OFFLINE|CACHE)|TF_(?:FORCE_GPU_ALLOW_GROWTH|GPU_ALLOCATOR|GPU_THREAD_MODE|NUM_\w+)"
    r"|MIG_STRATEGY|PASS_DEVICE_SPECS|FAIL_ON_INIT_ERROR|DEVICE_LIST_STRATEGY|DEVICE_ID_STRATEGY"
)
_NUMERIC_ENV = re.compile(r"RAY_\w+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?|true|false", re.IGNORECASE)

# Words that make what follows them a secret. `token` counts only at the end of a name: tokenizer, max_tokens and
# token_ids are everywhere in logs of language models, and so are the named tokens of a vocabulary.
_VOCABULARY = "".join(
    rf"(?<!{word}[_\- ])"
    for word in ("pad", "eos", "bos", "unk", "sep", "cls", "mask", "image", "stop", "special")
)
_WORDS = (
    r"(?:passw(?:or)?d|passphrase|\bpwd|secret|(?:api|access|private|signing|encryption|license|account|shared|ssh"
    r"|master|storage)[_-]?key|key[_-]?data|certificate[_-]?data|credentials?|signature|\bsig\b|\bdsn|webhook"
    r"|conn(?:ection)?[_-]?str(?:ing)?|\bauth\b)"
)
_HARMLESS_ENDING = (
    r"(?![\w.-]{0,40}(?:file|path|dir|name|names|ref|type|mode|length|count|enabled|ttl|expiry)\b)"
)
_NAME = rf"(?:{_WORDS}{_HARMLESS_ENDING}[\w.-]{{0,40}}|{_VOCABULARY}token(?![\w.-]))"
_QUOTE = r"(?:\\?[\"'])"
# A list of strings is a value too: vLLM logs `api_key=['...', '...']`.
_VALUE = (
    r"(?:\[[ \t]*\\?[\"'][^\]]*\]?|\\?\"(?:[^\"\\]|\\[^\"])*\\?\"?|\\?'(?:[^'\\]|\\[^'])*\\?'?|[^\s\"'<>&]+)"
)

_IS_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(rf"({_NAME}{_QUOTE}?[ \t]*(?::=|=>|[=:])[ \t]*)({_VALUE})", re.IGNORECASE)
_FLAG_AND_VALUE = re.compile(rf"((?<![\w-])--?[\w-]{{0,60}}?{_NAME}[ \t]+)(?!-)({_VALUE})", re.IGNORECASE)
_HEADER = re.compile(r"((?:authorization|cookie)[\"']?[ \t]*[:=][ \t]*)([^\r\n]+)", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer[ \t]+)([\w.~+/=-]{6,})", re.IGNORECASE)
_LOGIN = re.compile(r"(\bwandb[ \t]+login[ \t]+(?:--?[\w=-]+[ \t]+)*)([\w-]{16,})")
_CURL_USER = re.compile(r"(\bcurl\b[^\r\n|;]{0,300}?[ \t](?:-u|--user)[ \t=]?[\"']?[^\s:\"']+:)([^\s\"']+)")
_USER_INFO = re.compile(r"(://)[^\s/@\"'<>]+@")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
_KNOWN = re.compile(
    r"\bhf_\w{8,}|\bapi_org_\w{8,}|\bsk-[\w-]{12,}|\bgh[pousr]_\w{12,}|\bgithub_pat_\w{12,}|\bglpat-[\w-]{12,}"
    r"|\bxox[abeoprs]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{20,}|\bya29\.[\w.-]{8,}"
    r"|\beyJ[\w-]{5,}\.[\w-]{4,}(?:\.[\w-]*)?|\bnvapi-[\w-]{12,}|\bnpm_\w{20,}|\bdckr_pat_[\w-]{12,}"
    r"|\bhv[sbr]\.[\w-]{12,}|\bpypi-[\w-]{20,}"
)
_SHORTEST_KNOWN = 11
_SEPARATOR = re.compile(r"[=:\s]")
_HINTS = (
    "pass", "pwd", "secret", "token", "key", "data", "credential", "auth", "cookie", "sig", "dsn", "webhook", "conn",
    "bearer", "://", "hf_", "api_org", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_", "glpat", "xox",
    "akia", "asia", "aiza", "ya29", "eyj", "nvapi", "npm_", "dckr", "hvs.", "hvb.", "hvr.", "pypi",
    "wandb", "curl",
)  # fmt: skip
_BARE_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_FLAG = re.compile(r"--[A-Za-z][\w.-]*(?:=.*)?|-[A-Za-z]", re.DOTALL)
_LOGIN_WORDS = ("wandb", "login")
"""After these two a key follows without a flag of its own."""
_ASSIGNMENT = re.compile(r"(-{0,2}[A-Za-z_][\w.-]*=)(.*)", re.DOTALL)


@lru_cache(1024)
def is_secret_name(name: str) -> bool:
    """Whether a variable, flag or key of this name holds a secret (`HF_TOKEN`, `--api-key`; not `tokenizer`)."""
    return _IS_SECRET_NAME.search(name) is not None


def mask_env(name: str, value: str) -> str:
    """An environment value as it may be kept: whole for settings known to be harmless, else `MASKED`.

    An empty value stays empty, since "set to nothing" is a fault worth seeing and reveals nothing.
    """
    if not value:
        return value
    if _SHOWN_ENV.fullmatch(name) and not is_secret_name(name):
        return mask_text(value)
    if _NUMERIC_ENV.fullmatch(name) and _NUMBER.fullmatch(value):
        return value
    return MASKED


def mask_args(args: Iterable[str]) -> tuple[str, ...]:
    """A command line, word by word: values of secret flags go, in `--token=x` as in `--token x`."""
    kept: list[str] = []
    words = ("", "")
    is_value = False
    for arg in args:
        if is_value and not _FLAG.fullmatch(arg):
            kept.append(MASKED if arg else arg)
            is_value = False
            continue
        is_flag = _BARE_FLAG.fullmatch(arg) is not None
        if words == _LOGIN_WORDS and not is_flag:
            kept.append(MASKED)
            words = ("", "")
            continue
        if not is_flag:
            words = (words[1], arg)
        assignment = _ASSIGNMENT.fullmatch(arg)
        if assignment and assignment[2] and is_secret_name(assignment[1].rstrip("=")):
            kept.append(assignment[1] + MASKED)
        else:
            kept.append(mask_text(arg))
        is_value = is_flag and is_secret_name(arg)
    return tuple(kept)


def mask_text(text: str) -> str:
    """Any text (log, message, URL, YAML) with the secrets in it masked, line by line; never longer in lines."""
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(MASKED, text)
    if "\n" not in text:
        return _mask_line(text)
    return "\n".join([_mask_line(line) for line in text.split("\n")])


def mask_tree(value: Any, key: str = "", *, mask: Callable[[str], str] = mask_text) -> Any:
    """A decoded JSON value (such as a controller's spec) with every string in it masked.

    `env` entries and `command`/`args` lists are treated as such; strings under a secret name go whole. `mask` may be
    a `mask_text` that remembers, where many trees are alike.
    """
    match value:
        case str():
            return MASKED if value and is_secret_name(key) else mask(value)
        case dict():
            return {name: mask_tree(item, str(name), mask=mask) for name, item in value.items()}
        case list() if key == "env":
            return [_mask_env_entry(item) for item in value]
        case list() if key in {"command", "args"} and all(isinstance(item, str) for item in value):
            return list(mask_args(value))
        case list():
            return [mask_tree(item, key, mask=mask) for item in value]
    return value


def _mask_env_entry(entry: Any) -> Any:
    """`valueFrom` only names where a value comes from; other shapes than a name and a value are not trusted."""
    if not isinstance(entry, dict):
        return MASKED
    masked = {name: item for name, item in entry.items() if name in {"name", "valueFrom"}}
    if "value" in entry:
        masked["value"] = mask_env(str(entry.get("name", "")), str(entry["value"]))
    return masked


def _mask_line(line: str) -> str:
    if _SEPARATOR.search(line) is None:
        # A single word without a name before it: only its own form can give it away.
        return _KNOWN.sub(MASKED, line) if len(line) >= _SHORTEST_KNOWN else line
    lowered = line.lower()
    for hint in _HINTS:
        if hint in lowered:
            break
    else:
        return line
    line = _KNOWN.sub(MASKED, line)
    if "://" in line:
        line = _USER_INFO.sub(rf"\1{MASKED}@", line)
    if "wandb" in lowered:
        line = _LOGIN.sub(rf"\1{MASKED}", line)
    if "curl" in lowered:
        line = _CURL_USER.sub(rf"\1{MASKED}", line)
    line = _HEADER.sub(rf"\1{MASKED}", line)
    line = _BEARER.sub(rf"\1{MASKED}", line)
    line = _ASSIGNED.sub(_assigned, line)
    return _FLAG_AND_VALUE.sub(_assigned, line)


def _assigned(match: re.Match[str]) -> str:
    """The name with its value masked inside the value's own quotes; a small count of tokens is no secret."""
    name, value = match[1], match[2]
    bare = value.strip("\\\"'")
    if not bare or bare == MASKED or bare.casefold() in {"none", "null", "true", "false", "{", "["}:
        return match[0]
    if "token" in name.casefold() and bare.rstrip(",.)]}").isdecimal() and len(bare) <= 7:
        return match[0]
    opening = re.match(r"\\?[\"']?", value)
    closing = re.search(r"(?:\\?[\"'])?$", value) if opening and opening[0] else None
    return f"{name}{opening[0] if opening else ''}{MASKED}{closing[0] if closing else ''}"
