"""Secrets never get past masking, and what an operator needs to read does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.masking import MASKED, is_secret_name, mask_args, mask_env, mask_text, mask_tree

secrets = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/=_.", min_size=12, max_size=60
).map(lambda text: "x9" + text)
padding = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.mark.parametrize(
    "template",
    [
        "HF_TOKEN={}",
        "export WANDB_API_KEY='{}'",
        "--api-key {} --port 8000",
        "--hf-token={}",
        "password: {}",
        '{{"password": "{}", "user": "bob"}}',
        r"{{\"client_secret\": \"{}\"}}",
        "Authorization: Bearer {}",
        "authorization: Basic {}",
        "got header bearer {}",
        "https://host/path?sig={}&x=1",
        "https://s3/x?X-Amz-Signature={}",
        "AWS_SECRET_ACCESS_KEY={}",
        "    client-key-data: {}",
        "    token: {}",
        "AccountKey={}",
        "Cookie: session={}",
        "args: Namespace(api_key=['{}'], port=8000)",
        "non-default args: {{'api_key': ['first', '{}'], 'port': 8000}}",
        r"{{\"api_key\": [\"{}\"]}}",
        "curl -sS -u reader:{} https://host",
    ],
)
@given(secret=secrets, before=padding, after=padding)
def test_masks_a_secret_in_any_surroundings(template: str, secret: str, before: str, after: str) -> None:
    masked = mask_text(f"{before} {template.format(secret)} {after}")
    assert secret not in masked
    assert MASKED in masked


@given(secret=secrets.map(lambda text: text.replace("/", "_")))
def test_masks_credentials_in_a_url(secret: str) -> None:
    masked = mask_text(f"cannot reach postgres://reader:{secret}@db.prod:5432/x")
    assert masked == f"cannot reach postgres://{MASKED}@db.prod:5432/x"


@pytest.mark.parametrize(
    "token",
    [
        "hf_aBcDeFgHiJkLmNoP",
        "sk-proj-aBcDeFgHiJkLmNoP12",
        "ghp_aBcDeFgHiJkLmNoP1234",
        "glpat-aBcDeFgHiJkLmNoP",
        "AKIAABCDEFGHIJKLMNOP",
        "nvapi-aBcDeFgHiJkLmNoP_12",
        "xoxb-123456789-abcdef",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl",
    ],
)
def test_knows_a_token_by_its_form_without_any_name(token: str) -> None:
    assert token not in mask_text(f"INFO using {token}, fine")


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has 79.15 GiB",
        "INFO vllm: tokenizer='meta-llama/Llama-3-8B', max_num_batched_tokens=8192, pad_token='<pad>', eos_token=2",
        'MountVolume.SetUp failed for volume "creds" : secret "hf-token" not found',
        "Error: couldn't find key token in Secret ns/hf",
        "secretName: hf-token",
        "--password-file=/run/secrets/db",
        "Avg prompt throughput: 12.1 tokens/s, token: 512",
        "NCCL INFO Call to connect returned Connection refused, retrying",
        "0/4 nodes are available: 1 Insufficient memory, 4 Insufficient nvidia.com/gpu.",
        "GET http://gpt-ddp-0.gpt-ddp:29500/healthz",
    ],
)
def test_leaves_a_line_without_secrets_alone(line: str) -> None:
    assert mask_text(line) == line


def test_masks_a_private_key_over_several_lines() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKC\nAQEA7\n-----END RSA PRIVATE KEY-----"
    assert mask_text(f"a\n{key}\nb") == f"a\n{MASKED}\nb"


@given(st.text(max_size=200), st.sampled_from(["", "token=", "password: ", "--api-key ", "https://a:b@"]))
def test_masking_twice_changes_nothing_more(text: str, start: str) -> None:
    once = mask_text(start + text)
    assert mask_text(once) == once


@given(st.text(max_size=300))
def test_keeps_the_number_of_lines_of_plain_text(text: str) -> None:
    assert mask_text(text).count("\n") == text.count("\n")


@pytest.mark.timeout(30)  # a quadratic pattern takes minutes
@pytest.mark.parametrize("hostile", ["passwd", "secret-", "--token ", "://", "eyJ", '\\"', "key_", "a"])
def test_gets_through_a_long_hostile_line(hostile: str) -> None:
    line = (hostile * 60_000)[:120_000] + ' password="hunter2"'
    assert "hunter2" not in mask_text(line)


@given(secret=secrets)
def test_masks_flag_values_in_either_form(secret: str) -> None:
    args = [
        "serve",
        "--api-key",
        secret,
        f"--hf-token={secret} with blanks",
        "--port",
        "8000",
        "-token",
        secret,
    ]
    assert mask_args(args) == (
        "serve", "--api-key", MASKED, f"--hf-token={MASKED}", "--port", "8000", "-token", MASKED,
    )  # fmt: skip


@pytest.mark.parametrize("command", ["wandb login {}", "wandb login --relogin {} && python train.py"])
@given(secret=st.from_regex(r"[0-9a-f]{40}", fullmatch=True))
def test_masks_a_key_that_a_login_takes_without_a_flag(command: str, secret: str) -> None:
    assert secret not in mask_text(command.format(secret))
    assert secret not in " ".join(mask_args(command.format(secret).split()))


def test_takes_a_flag_after_a_secret_switch_for_a_flag() -> None:
    assert mask_args(["--use-auth-token", "--port", "80"]) == ("--use-auth-token", "--port", "80")


def test_masks_inside_a_shell_line() -> None:
    assert mask_args(["-c", "export HF_TOKEN=abcdef123; torchrun train.py"]) == (
        "-c",
        f"export HF_TOKEN={MASKED} torchrun train.py",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NCCL_SOCKET_IFNAME", "eth0"),
        ("MASTER_ADDR", "gpt-0.gpt"),
        ("WORLD_SIZE", "8"),
        ("PET_NNODES", "4"),
        ("CUDA_VISIBLE_DEVICES", "0,1"),
        ("VLLM_HOST_IP", "10.0.0.1"),
        ("RAY_object_store_memory", "1000000"),
        ("HF_TOKEN", ""),
    ],
)
def test_shows_a_setting_that_is_known_to_be_harmless(name: str, value: str) -> None:
    assert mask_env(name, value) == value


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "DATABASE_URL",
        "VLLM_API_KEY",
        "NCCL_SECRET",
        "RAY_address",
        "MY_SETTING",
        "TORCH_PASSWORD",
    ],
)
def test_masks_every_other_environment_value(name: str) -> None:
    assert mask_env(name, "s3cr3t-value") == MASKED


@given(name=st.text(min_size=1, max_size=30), secret=secrets)
def test_masks_values_of_unknown_variables(name: str, secret: str) -> None:
    assert secret not in mask_env("X_" + name, secret)


def test_masks_a_controllers_spec_and_keeps_its_shape() -> None:
    spec = {
        "replicas": 2,
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "main",
                        "args": ["--token", "abc123xyz"],
                        "env": [
                            {"name": "HF_TOKEN", "value": "hf_aaaaaaaaaaaa"},
                            {"name": "RANK", "value": "0"},
                            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
                            "not an entry",
                        ],
                    }
                ]
            }
        },
        "db": {"password": "hunter2"},
    }
    masked = mask_tree(spec)
    container = masked["template"]["spec"]["containers"][0]
    assert container["args"] == ["--token", MASKED]
    assert container["env"][0] == {"name": "HF_TOKEN", "value": MASKED}
    assert container["env"][1] == {"name": "RANK", "value": "0"}
    assert container["env"][2]["valueFrom"]["secretKeyRef"]["name"] == "hf"
    assert container["env"][3] == MASKED
    assert masked["replicas"] == 2
    assert masked["db"]["password"] == MASKED
    assert "hunter2" not in repr(masked)


@pytest.mark.parametrize(
    "name", ["tokenizer", "max_tokens", "pad_token", "secretName", "--password-file", "keyboard"]
)
def test_does_not_take_a_harmless_name_for_a_secret(name: str) -> None:
    assert not is_secret_name(name)
