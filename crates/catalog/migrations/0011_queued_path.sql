-- Every commit asks whether its paths wait to be deleted. A planner that takes the queue for empty finds all its indexes
-- equally good, and took one through which each commit reads the whole queue. The predicate is spelled so that the
-- conditions of that question match this index and no other; conditions that
-- are to match none say 'infinity'.
drop index file_removal_queued_path;
create index file_removal_queued_path on file_removal (hashtextextended(path, 0))
  where coalesce(settled_at, '-infinity') = '-infinity';
