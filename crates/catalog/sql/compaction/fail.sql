-- Puts files off that could not be compacted: twice as long each time. $1 catalog_id bigint, $2 data files bigint[]
-- ascending, $3 first wait and $4 longest wait in seconds double precision, $5 reason text. Primary key. A row a file: how
-- often it has failed by now, and for how many seconds it waits.
insert into compaction_failure as f (catalog_id, data_file_id, attempts, next_attempt_at, reason)
select $1, w, 1, clock_timestamp() + make_interval(secs => least($3::float8, $4::float8)), $5 from unnest($2::bigint[]) w
on conflict (catalog_id, data_file_id) do update
set attempts = f.attempts + 1,
    next_attempt_at = clock_timestamp() + make_interval(secs => least($3::float8 * 2 ^ least(f.attempts, 30), $4::float8)),
    reason = excluded.reason
returning f.data_file_id, f.attempts, least($3::float8 * 2 ^ least(f.attempts - 1, 30), $4::float8) as wait_seconds
