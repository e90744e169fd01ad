import threading

threading.Thread(target=threading.Event().wait, daemon=True, name="telemetry").start()
