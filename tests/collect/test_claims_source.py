"""Dynamic resource allocation as a source: in the version that is served, in part, or not there at all."""

import json
from typing import Any

from diagnostics.snapshot import Allocation, Source, SourceState
from tests.collect.test_kube_api import MakeTarget, Serve, read, status
from tests.fakes.replay import RECORDINGS
from tests.fakes.web import Reply

PLURAL = ("resourceslices", "resourceclaims", "resourceclaimtemplates", "deviceclasses")
GROUP = "resource.k8s.io"


def test_a_cluster_without_dynamic_resource_allocation_has_none(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")
    served.edits["/apis"] = lambda found: found.update(
        groups=[one for one in found["groups"] if one["name"] != GROUP]
    )
    objects = read(target(served))
    assert status(objects, Source.CLAIMS).state is SourceState.ABSENT
    assert objects.dra == Allocation(unread=PLURAL)
    assert not any(GROUP in asked.path for asked in served.asked)


def test_reads_claims_in_the_version_that_is_served(replay: Serve, target: MakeTarget) -> None:
    served = replay("dra")

    def older(found: Any) -> None:
        group = next(one for one in found["groups"] if one["name"] == GROUP)
        group["versions"] = [{"groupVersion": f"{GROUP}/v1beta2", "version": "v1beta2"}]

    served.edits["/apis"] = older
    names = json.dumps({"resources": [{"name": name, "verbs": ["list"]} for name in PLURAL]}).encode()
    served.fault(f"/apis/{GROUP}/v1beta2", Reply(names))
    for name in PLURAL:
        body = (RECORDINGS / "dra" / f"apis_{GROUP}_v1_{name}.json").read_bytes()
        served.fault(f"/apis/{GROUP}/v1beta2/{name}", Reply(body))
    objects = read(target(served))
    assert status(objects, Source.CLAIMS).state is SourceState.OK
    assert (len(objects.dra.slices), len(objects.dra.claims)) == (5, 15)
    assert {api.version for api in objects.apis if api.group == GROUP} == {"v1beta2"}


def test_versions_that_are_too_old_to_be_read_are_absent(replay: Serve, target: MakeTarget) -> None:
    served = replay("healthy")

    def alpha(found: Any) -> None:
        group = next(one for one in found["groups"] if one["name"] == GROUP)
        group["versions"] = [{"groupVersion": f"{GROUP}/v1alpha2", "version": "v1alpha2"}]

    served.edits["/apis"] = alpha
    assert status(read(target(served)), Source.CLAIMS).state is SourceState.ABSENT


def test_who_may_not_read_what_drivers_publish_sees_the_claims(replay: Serve, target: MakeTarget) -> None:
    objects = read(target(replay("healthy/as-viewer")))
    claims = status(objects, Source.CLAIMS)
    assert claims.state is SourceState.PARTIAL
    assert "without resourceslices and deviceclasses" in claims.detail
    assert objects.dra.unread == ("resourceslices", "deviceclasses")
