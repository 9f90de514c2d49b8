"""The world as the API server shows it: objects like those that a v1.36 server answers with."""
