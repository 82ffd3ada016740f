-- Gives back what a server holds and others can do. $1 server_id uuid. conversion_open.
update conversion set state = 'waiting', server_id = null, leased_until = null, attempts = greatest(attempts - 1, 0)
where state = 'running' and server_id = $1 and is_background and not is_private
