"""Where to begin: the first cluster, or how to connect one while there is none."""

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from diagnostics.models import Cluster
from diagnostics.views.page import HtmxRequest


@require_safe
def home(request: HtmxRequest) -> HttpResponse:
    first = Cluster.objects.first()
    return redirect("overview", slug=first.slug) if first else redirect("connect")
