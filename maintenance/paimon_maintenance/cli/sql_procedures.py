class JobProcedures:
    def names(self): return ()
    def call(self, name, given, site): raise NotImplementedError
