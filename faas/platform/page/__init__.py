"""The page at a platform's own port: what its functions do, live, and a form to call them; read-only otherwise."""
