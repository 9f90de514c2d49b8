"""The Kubernetes API, read-only: what a GET is answered with, as a function of the request and the time."""

import base64
import binascii
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import msgspec

from diagnostics.simulator import pod_log, selectors
from diagnostics.simulator.cluster_state import ClusterState, StateStore
from diagnostics.simulator.discovery import Resource, documents, find
from diagnostics.simulator.pages import GZIP_FROM_BYTES, PageStore
from diagnostics.simulator.workloads import Json

TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)
_NOW = -1
"""As the time of a token: go on with whatever there is."""

Query = dict[str, str]


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = HTTPStatus.OK
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


class Refused(Exception):
    """The request is answered with the API's error object."""

    def __init__(
        self, code: int, reason: str, message: str, details: Json | None = None, token: str = ""
    ) -> None:
        super().__init__(message)
        self.code = code
        self.body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        if token:
            self.body["metadata"] = {"continue": token}
        self.body |= {"message": message, "reason": reason}
        if details is not None:
            self.body["details"] = details
        self.body["code"] = code

    def answer(self) -> Answer:
        return Answer(msgspec.json.encode(self.body) + b"\n", self.code)


class KubeApi:
    """`token`: the one bearer token that is let in; empty lets everybody in."""

    def __init__(
        self, states: StateStore, token: str = "", continue_ttl: timedelta = timedelta(minutes=5)
    ) -> None:
        self._states = states
        self._token = token
        self._continue_ttl = continue_ttl
        self._pages = PageStore()
        self._documents = {p: msgspec.json.encode(d) + b"\n" for p, d in documents().items()}

    def get(
        self, path: str, query: Query, now: datetime, *, authorization: str = "", gzip: bool = False
    ) -> Answer:
        try:
            self._let_in(path, authorization)
            if path in self._documents:
                return Answer(self._documents[path])
            if path in ("/healthz", "/livez", "/readyz"):
                return Answer(b"ok", content_type="text/plain; charset=utf-8")
            return self._read(path, query, now, gzip=gzip)
        except Refused as refused:
            return refused.answer()

    def _let_in(self, path: str, authorization: str) -> None:
        if not self._token or authorization == f"Bearer {self._token}":
            return
        if authorization:
            raise Refused(401, "Unauthorized", "Unauthorized")
        message = f'forbidden: User "system:anonymous" cannot get path "{path}"'
        raise Refused(403, "Forbidden", message, {})

    def _read(self, path: str, query: Query, now: datetime, *, gzip: bool) -> Answer:
        parts = path.strip("/").split("/")
        root_length = 2 if parts[0] == "api" else 3
        root, rest = "/" + "/".join(parts[:root_length]), parts[root_length:]
        if root not in self._documents or not rest:
            return Answer(b"404 page not found\n", 404, "text/plain; charset=utf-8")
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = find(f"{root}/{rest[0]}")
        if resource is None or (namespace and not resource.is_namespaced):
            raise Refused(404, "NotFound", "the server could not find the requested resource", {})
        match rest[1:]:
            case []:
                return self._list(resource, namespace, query, now, gzip=gzip)
            case [name]:
                return self._one(resource, self._states.at(now), namespace, name)
            case [name, "log"] if resource.name == "pods":
                return self._log(self._states.at(now), namespace, name, query, now)
        raise Refused(404, "NotFound", "the server could not find the requested resource", {})

    def _list(self, resource: Resource, namespace: str, query: Query, now: datetime, *, gzip: bool) -> Answer:
        if query.get("watch") in ("1", "true"):
            expired = Refused(410, "Expired", "The resourceVersion for the provided watch is too old.")
            return Answer(msgspec.json.encode({"type": "ERROR", "object": expired.body}) + b"\n")
        limit = _limit(query)
        moment, start = now.replace(microsecond=0), ""
        if query.get("continue"):
            moment, start = self._continued(query["continue"], now)
        items = self._states.at(moment).items(resource)
        if namespace:
            items = [i for i in items if i.key.startswith(f"{namespace}/")]
        items = selectors.select(items, query, resource, _refuse)
        items = [i for i in items if i.key >= start] if start else items
        page = items[:limit] if limit else items
        left = len(items) - len(page)
        metadata: Json = {"resourceVersion": str(int(moment.timestamp()))}
        if left:
            metadata["continue"] = _token(int(moment.timestamp()), page[-1].key)
            metadata["remainingItemCount"] = left
        head = msgspec.json.encode(
            {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        )
        head = head[:-1] + b',"items":['
        body = self._pages.plain(head, page)
        if not gzip or len(body) < GZIP_FROM_BYTES:
            return Answer(body)
        return Answer(self._pages.gzipped(head, page, body), headers={"Content-Encoding": "gzip"})

    def _continued(self, token: str, now: datetime) -> tuple[datetime, str]:
        try:
            said = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
            version, start = int(said["rv"]), str(said["start"])
        except (ValueError, KeyError, TypeError, binascii.Error):
            message = "continue key is not valid: illegal base64 data at input byte 0"
            raise Refused(400, "BadRequest", message) from None
        if version == _NOW:
            return now.replace(microsecond=0), start
        moment = datetime.fromtimestamp(version, UTC)
        if now - moment > self._continue_ttl:
            raise Refused(410, "Expired", TOO_OLD, token=_token(_NOW, start.removesuffix("\0")))
        return moment, start

    def _one(self, resource: Resource, state: ClusterState, namespace: str, name: str) -> Answer:
        key = f"{namespace}/{name}" if resource.is_namespaced else name
        item = next((i for i in state.items(resource) if i.key == key), None)
        if item is None:
            raise _not_found(resource.name, name)
        start = msgspec.json.encode({"kind": resource.kind, "apiVersion": resource.api_version})
        return Answer(start[:-1] + b"," + item.body[1:] + b"\n")

    def _log(self, state: ClusterState, namespace: str, name: str, query: Query, now: datetime) -> Answer:
        pod = state.pods.get(f"{namespace}/{name}")
        if pod is None:
            raise _not_found("pods", name)
        try:
            text = pod_log.read(state.world, pod, query, now)
        except pod_log.Unreachable as error:
            raise Refused(500, "InternalError", str(error)) from None
        except ValueError as error:
            raise Refused(400, "BadRequest", str(error)) from None
        return Answer(text, content_type="text/plain")


def method_not_allowed() -> Answer:
    message = "the server does not allow this method on the requested resource"
    return Refused(405, "MethodNotAllowed", message, {}).answer()


def _not_found(resource: str, name: str) -> Refused:
    return Refused(404, "NotFound", f'{resource} "{name}" not found', {"name": name, "kind": resource})


def _refuse(message: str) -> Exception:
    return Refused(400, "BadRequest", message)


def _token(version: int, last: str) -> str:
    said = {"v": "meta.k8s.io/v1", "rv": version, "start": last + "\0"}
    return base64.urlsafe_b64encode(json.dumps(said, separators=(",", ":")).encode()).decode().rstrip("=")


def _limit(query: Query) -> int:
    """0 means all. A list from the cache (`resourceVersion=0`) ignores the limit."""
    if query.get("resourceVersion") == "0" and not query.get("continue"):
        return 0
    try:
        return max(0, int(query.get("limit", "0")))
    except ValueError:
        message = f'strconv.ParseInt: parsing "{query["limit"]}": invalid syntax'
        raise Refused(400, "BadRequest", message) from None
