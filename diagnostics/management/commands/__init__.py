"""Commands: `python manage.py help`."""
