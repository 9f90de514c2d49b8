#!/usr/bin/env python
"""Django's entry point: `python manage.py help` lists the commands."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpuhealth.settings")
    execute_from_command_line(sys.argv)
