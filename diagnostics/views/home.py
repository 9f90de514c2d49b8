"""Where to begin: the first cluster, or what to do while there is none."""

from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_safe

from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page


@dataclass(frozen=True, kw_only=True)
class HomePage(Page):
    """Only seen while there is no cluster."""


@require_safe
def home(request: HtmxRequest) -> HttpResponse:
    frame = bare_frame("home")
    if frame.clusters:
        return redirect("finding_list", slug=frame.clusters[0].slug)
    return render_page(request, "pages/home.html", HomePage(frame=frame, now=timezone.now()))
