-- The schema `hoglake` as text, a line a row: types, tables with columns and constraints, indexes without a constraint.
-- Says the same on every supported Postgres.
with lines as (
  select 1 as part, t.typname::text as name, 0 as place,
         format('create type %s as enum (%s);', t.typname,
                (select string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder)
                 from pg_enum e where e.enumtypid = t.oid)) as line
  from pg_type t
  where t.typnamespace = 'hoglake'::regnamespace and t.typtype = 'e'
  union all
  select 1, t.typname, 0, format('create type %s as range (subtype = %s, collation = %I);', t.typname,
                                 format_type(r.rngsubtype, null), c.collname)
  from pg_type t
  join pg_range r on r.rngtypid = t.oid
  left join pg_collation c on c.oid = r.rngcollation
  where t.typnamespace = 'hoglake'::regnamespace
  union all
  select 2, c.relname, 0, format(E'\ncreate table %s%s', c.relname, ' with (' || array_to_string(c.reloptions, ', ') || ')')
  from pg_class c
  where c.relnamespace = 'hoglake'::regnamespace and c.relkind = 'r'
  union all
  select 2, c.relname, a.attnum,
         format('  %s %s%s%s', a.attname, replace(format_type(a.atttypid, a.atttypmod), 'hoglake.', ''),
                case when a.attnotnull then ' not null' else '' end,
                case when a.attidentity = 'a' then ' generated always as identity'
                     when d.adbin is not null
                     then ' default ' || replace(pg_get_expr(d.adbin, d.adrelid), 'hoglake.', '')
                     else '' end)
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = 'hoglake'::regnamespace and c.relkind = 'r'
  union all
  select 2, c.relname, 10000 + row_number() over (partition by c.oid order by k.conname collate "C")::int,
         format('  constraint %s %s', k.conname, replace(pg_get_constraintdef(k.oid), 'hoglake.', ''))
  from pg_class c
  join pg_constraint k on k.conrelid = c.oid and k.contype <> 'n'
  where c.relnamespace = 'hoglake'::regnamespace and c.relkind = 'r'
  union all
  select 2, c.relname, 20000 + row_number() over (partition by c.oid order by i.relname collate "C")::int,
         '  ' || replace(pg_get_indexdef(x.indexrelid), 'hoglake.', '')
  from pg_class c
  join pg_index x on x.indrelid = c.oid
  join pg_class i on i.oid = x.indexrelid
  where c.relnamespace = 'hoglake'::regnamespace and c.relkind = 'r'
    and not exists (select 1 from pg_constraint k where k.conindid = x.indexrelid)
)
select line from lines order by part, name collate "C", place
