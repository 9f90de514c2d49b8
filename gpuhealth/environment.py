"""Typed readers of environment variables. What cannot be read is an error with its name, never a guess."""

import os
import re
import secrets
import sys
from argparse import ArgumentParser
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.core.exceptions import ImproperlyConfigured

_data_dir_option = ArgumentParser(add_help=False, allow_abbrev=False)
_data_dir_option.add_argument("--data-dir")
_DURATION = re.compile(r"(\d+)\s*([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def text(name: str, default: str = "") -> str:
    """The variable's value without surrounding blanks; an empty one counts as not set."""
    return os.environ.get(name, "").strip() or default


def boolean(name: str, *, default: bool = False) -> bool:
    value = text(name).lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    if value:
        raise ImproperlyConfigured(f"{name} is neither yes nor no")
    return default


def listing(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """Values separated by commas."""
    return [part.strip() for part in text(name).split(",") if part.strip()] or list(default)


def prefixed(prefix: str) -> dict[str, str]:
    """Rest of the name, in lower case -> value, of each variable that begins so and is not empty."""
    return {
        name.removeprefix(prefix).lower(): value
        for name in sorted(os.environ)
        if name.startswith(prefix) and (value := text(name))
    }


def choice(name: str, choices: tuple[str, ...]) -> str:
    """One of `choices`, of which the first is the default."""
    value = text(name, choices[0])
    if value not in choices:
        raise ImproperlyConfigured(f"{name} is {value!r}, not one of {', '.join(choices)}")
    return value


def duration(name: str, default: timedelta, least: timedelta) -> timedelta:
    """`60s`, `5m`, `1h`, `1d`, and their sums."""
    value = text(name)
    if not value:
        return default
    parts = _DURATION.findall(value)
    if not parts or _DURATION.sub("", value).strip():
        raise ImproperlyConfigured(f"{name} is {value!r}, not a duration such as 60s or 5m")
    read = timedelta(seconds=sum(int(number) * _SECONDS[unit] for number, unit in parts))
    if read < least:
        raise ImproperlyConfigured(f"{name} is {value!r}, below {least.total_seconds():g}s")
    return read


def time_zone(name: str) -> str:
    """A zone of the IANA database such as `Europe/Paris`; UTC without one."""
    zone = text(name, "UTC")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ImproperlyConfigured(f"{name} is {zone!r}, not a time zone such as Europe/Paris") from None
    return zone


def folder(name: str, default: Path) -> Path:
    return Path(text(name, str(default))).expanduser().absolute()


def data_dir() -> Path:
    """Where everything is kept that this installation writes, by the platform's custom.

    `--data-dir` of a command wins; it is read here, because everything else depends on it.
    """
    options, _ = _data_dir_option.parse_known_args(sys.argv[1:])
    if options.data_dir:
        return Path(options.data_dir).expanduser().absolute()
    if sys.platform == "darwin":
        default = Path("~/Library/Application Support/gpuhealth")
    else:
        default = Path(text("XDG_DATA_HOME", "~/.local/share")) / "gpuhealth"
    return folder("GPUHEALTH_DATA_DIR", default)


def file_text(name: str) -> str | None:
    """Text of the file that the variable names; None when it is not set."""
    path = text(name)
    if not path:
        return None
    try:
        return Path(path).expanduser().read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ImproperlyConfigured(f"{name}: {path} cannot be read: {reason}") from None


def secret_key(kept_in: Path) -> str:
    """GPUHEALTH_SECRET_KEY, or what is in GPUHEALTH_SECRET_KEY_FILE, or a key made once and kept here."""
    given, from_file = text("GPUHEALTH_SECRET_KEY"), file_text("GPUHEALTH_SECRET_KEY_FILE")
    if given and from_file is not None:
        raise ImproperlyConfigured("give GPUHEALTH_SECRET_KEY or GPUHEALTH_SECRET_KEY_FILE, not both")
    key = given if from_file is None else from_file.strip()
    if key or from_file is not None:
        if len(key) < 32:
            raise ImproperlyConfigured("the secret key is shorter than 32 characters: openssl rand -hex 32")
        return key
    path = kept_in / "secret_key"
    try:
        return _kept_key(path)
    except OSError as error:
        raise ImproperlyConfigured(
            f"no secret key is given and none can be kept in {path}: {error.strerror}; "
            "set GPUHEALTH_SECRET_KEY or GPUHEALTH_DATA_DIR"
        ) from None


def _kept_key(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        # Written aside and linked: of two processes that start together one wins, and none reads half a key.
        draft = path.with_name(f".secret_key.{os.getpid()}")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    key = path.read_text().strip()
    if len(key) < 32:
        raise ImproperlyConfigured(f"{path} holds no usable secret key; remove it to get a new one")
    return key


def database(name: str, default: Path) -> dict[str, Any]:
    """Django's settings for `sqlite:///absolute/path` or `postgres://user:password@host:port/database`."""
    url = text(name, f"sqlite://{quote(str(default))}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} is not a URL") from None
    if parts.fragment:
        raise ImproperlyConfigured(f"{name}: write # in a user name or password as %23")
    if parts.scheme == "sqlite":
        return _sqlite(name, parts)
    if parts.scheme in ("postgres", "postgresql"):
        return _postgresql(name, parts, port)
    raise ImproperlyConfigured(f"{name} begins neither with sqlite:// nor with postgres://")


def _sqlite(name: str, parts: SplitResult) -> dict[str, Any]:
    path = Path(unquote(parts.path))
    if parts.netloc or parts.query or not path.is_absolute() or path == Path("/"):
        raise ImproperlyConfigured(f"{name}: SQLite is written sqlite:///absolute/path/to/file")
    # SQLite makes the file but not its folder. If that fails, the first query says so.
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        # Readers and the one writer do not wait for each other (WAL). Who means to write says so at once
        # (IMMEDIATE), because a reader that becomes a writer halfway fails without waiting.
        "OPTIONS": {
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
        },
    }


def _postgresql(name: str, parts: SplitResult, port: int | None) -> dict[str, Any]:
    database_name = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not parts.username or not database_name or "/" in database_name:
        raise ImproperlyConfigured(
            f"{name}: PostgreSQL is written postgres://user:password@host:port/database"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - {"sslmode", "sslrootcert"}:
        raise ImproperlyConfigured(f"{name}: unknown option {', '.join(sorted(unknown))}")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": database_name,
        "USER": unquote(parts.username),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname,
        "PORT": port or 5432,
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 10, **options},
    }


def broker(name: str) -> str:
    """URL of a server that speaks the Redis protocol; by default the usual place on this machine."""
    url = text(name, "redis://127.0.0.1:6379/0")
    try:
        parts = urlsplit(url)
        is_usable = (parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0) or (
            parts.scheme == "redis+socket" and bool(parts.path)
        )
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ImproperlyConfigured(f"{name} is none of redis://, rediss:// and redis+socket://")
    return url
