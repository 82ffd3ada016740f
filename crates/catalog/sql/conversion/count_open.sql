-- Conversions that wait or run. conversion_open.
select count(*) from conversion where state <> 'finished'
