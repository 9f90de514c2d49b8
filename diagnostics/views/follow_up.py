"""What a signed-in user does about a finding: one form each, answered with the page's parts or, without htmx, with
the page anew.
"""

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from diagnostics.incidents import follow_up as acts
from diagnostics.incidents.follow_up import Refused
from diagnostics.incidents.steps import ShownStep, unsigned
from diagnostics.models import User
from diagnostics.views.finding_page import incident_of, is_key, page_of, page_url
from diagnostics.views.page import HtmxRequest, frame_of, render_page


@require_POST
def follow_up(request: HtmxRequest, slug: str, finding_id: str) -> HttpResponse:
    """`action`: acknowledge, unacknowledge, assign, comment, check or uncheck; `incident`: which one was shown."""
    cluster, frame, now = frame_of(slug, "findings")
    pk = request.POST.get("incident", "")
    incident = incident_of(cluster, finding_id, pk).incident
    notice = ""
    try:
        _act(request, incident.pk)
    except Refused as refused:
        notice = str(refused)
    if not request.htmx and not notice:
        return redirect(page_url(request, slug, incident))
    page = page_of(
        request,
        cluster,
        incident_of(cluster, finding_id, pk),
        frame=frame,
        now=now,
        fix=request.POST.get("fix", "") if request.htmx else "",
        notice=notice,
        draft=request.POST.get("text", "") if notice else "",
    )
    return render_page(request, "pages/finding_detail.html", page, partial="live")


def _act(request: HtmxRequest, pk: int) -> bool:
    """Raises Refused."""
    actor, data = _user(request), request.POST
    match data.get("action"):
        case "acknowledge":
            return acts.acknowledge(pk, actor)
        case "unacknowledge":
            return acts.unacknowledge(pk, actor)
        case "assign":
            return acts.assign(pk, actor, _assignee(data.get("assignee", "")))
        case "comment":
            after = data.get("after", "")
            return acts.comment(pk, actor, data.get("text", ""), int(after) if is_key(after) else 0)
        case "check":
            return acts.check_step(pk, actor, _step(pk, data.get("step", "")))
        case "uncheck":
            return acts.uncheck_step(pk, actor, _step(pk, data.get("step", "")))
    raise Refused("This page does not know what you asked for; load it again.")


def _user(request: HtmxRequest) -> User:
    """Who has signed in: nobody else gets here."""
    assert isinstance(request.user, User)  # noqa: S101 - LoginRequiredMiddleware sees to it
    return request.user


def _assignee(name: str) -> User | None:
    if not name:
        return None
    user = User.objects.filter(username=name.replace("\x00", "")).first()
    if user is None:
        raise Refused("There is no user of that name.")
    return user


def _step(pk: int, token: str) -> ShownStep:
    step = unsigned(pk, token)
    if step is None:
        raise Refused("That step is not one of this finding; load the page again.")
    return step
