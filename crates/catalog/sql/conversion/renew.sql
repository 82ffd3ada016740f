-- Prolongs what a server holds. $1 server_id uuid, $2 seconds of the lease double precision. conversion_open.
update conversion set leased_until = clock_timestamp() + make_interval(secs => $2)
where state <> 'finished' and server_id = $1
