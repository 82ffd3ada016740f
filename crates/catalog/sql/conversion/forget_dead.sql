-- Forgets conversions in the foreground whose server is gone: their clients have seen it. conversion_open.
delete from conversion where state <> 'finished' and not is_background and leased_until <= clock_timestamp()
