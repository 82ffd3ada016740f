-- Serialises those who begin a conversion, so that bounds and claims are exact. Advisory locks of two numbers do not meet
-- those of one, such as the commit lock.
select pg_advisory_xact_lock(1752131446, 1)
