import threading

thread = threading.Thread(target=list)
thread.start()
thread.join()
