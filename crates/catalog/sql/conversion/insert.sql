-- Begins a conversion. $1 conversion_id uuid, $2 is_background boolean, $3 is_private boolean, $4 actor text,
-- $5 request_id text, $6 source text, $7 request text (json), $8 server_id uuid, $9 seconds of the lease double precision.
-- One in the foreground runs at once; one in the background waits for a server, a private one for its own.
insert into conversion (conversion_id, is_background, is_private, actor, request_id, source, request, state, server_id,
                        leased_until, started_at)
values ($1, $2, $3, $4, $5, $6, $7::json,
        case when $2 then 'waiting' else 'running' end,
        case when $2 and not $3 then null else $8 end,
        case when $2 and not $3 then null else clock_timestamp() + make_interval(secs => $9) end,
        case when $2 then null else clock_timestamp() end)
