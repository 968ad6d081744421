class Report:
    def judged(self, space, verdict, response, callback): pass
    def volatile(self, callback, key, names): pass
    def close(self, session, remembered): pass
    def timed(self, result): return result
    def timed_async(self, result): return result
def new_report(config, job, counts): return Report()
