-- Forgets the conversions in the foreground of a server that ends. $1 server_id uuid. conversion_open.
delete from conversion where state <> 'finished' and server_id = $1 and not is_background
