"""The same work the plain way: a script, without the framework's server, snapshot or warm pool."""
