//! Groups of small files.

use crate::SpecId;
use std::collections::BTreeMap;

/// Most inputs of one group, whatever their size.
pub const MAX_INPUT_FILES: usize = 64;

/// A live file that is small enough to be merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its size in bytes.
    pub size_bytes: i64,
    /// The first of its row ids.
    pub row_id_start: i64,
    /// The spec that it was written under.
    pub spec: Option<SpecId>,
    /// Its partition values, canonicalised ([`super::partition_key::canonical`]).
    pub partition: Vec<Option<String>>,
}

/// Spec and canonical partition values.
type Partition<'c> = (Option<SpecId>, &'c [Option<String>]);

/// What is worth a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Files of at least this size are left alone, and no group's inputs add up to more.
    pub target_bytes: i64,
    /// Fewest inputs of a group of tiny files. Larger ones need fewer: as many as fill the target, at least two.
    pub min_input_files: usize,
}

impl Policy {
    /// Fewest inputs of a group whose largest file has `largest` bytes: `min_input_files`, or as many such files as fit
    /// into the target when that is less, and never fewer than two.
    fn min_inputs(self, largest: i64) -> usize {
        let fitting = usize::try_from(self.target_bytes / largest.max(1)).unwrap_or(usize::MAX);
        self.min_input_files.min(fitting).max(2)
    }
}

/// Groups `candidates` for rewriting; each group is a list of indices into `candidates`.
///
/// Files go together that share spec and partition values. Within a partition they are packed smallest first, so that
/// bytes are rewritten as seldom as possible, and every run holds at most [`MAX_INPUT_FILES`] inputs that add up to at
/// most the target. Runs with too few inputs are dropped.
///
/// # Ordering
/// Groups with more inputs come first: they shrink the table's file count most. Ties go by partition, then by position
/// in it; inputs within a group by row id. The result depends on nothing but the arguments.
pub fn plan(candidates: &[Candidate], policy: Policy) -> Vec<Vec<usize>> {
    let mut partitions: BTreeMap<Partition<'_>, Vec<usize>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        if (0..policy.target_bytes).contains(&candidate.size_bytes) {
            partitions.entry((candidate.spec, &candidate.partition)).or_default().push(index);
        }
    }
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for mut files in partitions.into_values() {
        files.sort_by_key(|i| candidates.get(*i).map(|c| (c.size_bytes, c.row_id_start)));
        let mut run: Vec<usize> = Vec::new();
        let mut bytes = 0_i64;
        for index in files {
            let size = candidates.get(index).map_or(0, |c| c.size_bytes);
            if run.len() == MAX_INPUT_FILES || bytes.saturating_add(size) > policy.target_bytes {
                keep(&mut groups, std::mem::take(&mut run), candidates, policy);
                bytes = 0;
            }
            run.push(index);
            bytes += size;
        }
        keep(&mut groups, run, candidates, policy);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

fn keep(groups: &mut Vec<Vec<usize>>, mut run: Vec<usize>, candidates: &[Candidate], policy: Policy) {
    let largest = run.iter().filter_map(|i| candidates.get(*i)).map(|c| c.size_bytes).max().unwrap_or(0);
    if run.len() >= policy.min_inputs(largest) {
        run.sort_by_key(|i| candidates.get(*i).map(|c| c.row_id_start));
        groups.push(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const POLICY: Policy = Policy { target_bytes: 1000, min_input_files: 4 };

    fn file(size_bytes: i64, row_id_start: i64) -> Candidate {
        Candidate { size_bytes, row_id_start, spec: None, partition: Vec::new() }
    }

    #[test]
    fn tiny_files_wait_for_company_and_large_ones_need_little() {
        let tiny = [file(10, 0), file(10, 1), file(10, 2)];
        assert!(plan(&tiny, POLICY).is_empty());
        let four = [file(10, 3), file(10, 1), file(10, 2), file(10, 0)];
        assert_eq!(plan(&four, POLICY), [vec![3, 1, 2, 0]]);
        // two of 450 nearly fill the target
        assert_eq!(plan(&[file(450, 0), file(450, 1)], POLICY), [vec![0, 1]]);
        // two of 600 do not fit together
        assert!(plan(&[file(600, 0), file(600, 1)], POLICY).is_empty());
        // at the target, and with a size that cannot be
        assert!(plan(&vec![file(1000, 0); 4], POLICY).is_empty());
        assert!(plan(&vec![file(-1, 0); 4], POLICY).is_empty());
    }

    #[test]
    fn partitions_and_specs_are_never_mixed() {
        let mut files = Vec::new();
        for row in 0..4 {
            for (spec, value) in [(Some(1), Some("a")), (Some(1), None), (Some(2), Some("a"))] {
                let partition = vec![value.map(str::to_owned)];
                files.push(Candidate { spec: spec.map(SpecId), partition, ..file(10, row) });
            }
        }
        let groups = plan(&files, POLICY);
        assert_eq!(groups.len(), 3);
        for group in groups {
            let keys: HashSet<_> = group.iter().map(|i| (files[*i].spec, files[*i].partition.clone())).collect();
            assert_eq!((group.len(), keys.len()), (4, 1));
        }
    }

    #[test]
    fn a_group_has_at_most_64_inputs() {
        let files: Vec<_> = (0..200).map(|row| file(1, row)).collect();
        let lengths: Vec<usize> = plan(&files, POLICY).iter().map(Vec::len).collect();
        assert_eq!(lengths, [64, 64, 64, 8]);
    }

    fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
        let one =
            (0_i64..1200, 0_i64..1000, proptest::option::of(1_i64..3), 0_u8..3).prop_map(|(size, row, spec, p)| {
                Candidate { spec: spec.map(SpecId), partition: vec![(p > 0).then(|| p.to_string())], ..file(size, row) }
            });
        proptest::collection::vec(one, 0..300)
    }

    proptest! {
        #[test]
        fn groups_are_disjoint_bounded_and_of_one_partition(files in candidates(), min_input_files in 0_usize..9) {
            let policy = Policy { min_input_files, ..POLICY };
            let groups = plan(&files, policy);
            let mut seen = HashSet::new();
            for group in &groups {
                prop_assert!((2..=MAX_INPUT_FILES).contains(&group.len()));
                prop_assert!(group.iter().map(|i| files[*i].size_bytes).sum::<i64>() <= policy.target_bytes);
                for index in group {
                    prop_assert!(seen.insert(*index));
                    prop_assert_eq!(files[*index].spec, files[group[0]].spec);
                    prop_assert_eq!(&files[*index].partition, &files[group[0]].partition);
                }
            }
        }

        /// Sweep after sweep comes to an end, and every byte is rewritten a small number of times.
        #[test]
        fn repeated_sweeps_come_to_rest(sizes in proptest::collection::vec(1_i64..400, 0..300)) {
            let mut files: Vec<_> = (0_i64..).zip(&sizes).map(|(row, size)| file(*size, row)).collect();
            let total: i64 = sizes.iter().sum();
            let mut rewritten = 0;
            for sweep in 0.. {
                let groups = plan(&files, POLICY);
                if groups.is_empty() {
                    break;
                }
                prop_assert!(sweep < 16);
                let gone: HashSet<usize> = groups.iter().flatten().copied().collect();
                let mut next: Vec<_> =
                    files.iter().enumerate().filter(|(i, _)| !gone.contains(i)).map(|(_, f)| f.clone()).collect();
                for group in groups {
                    let bytes = group.iter().map(|i| files[*i].size_bytes).sum();
                    rewritten += bytes;
                    next.push(file(bytes, files[group[0]].row_id_start));
                }
                files = next;
            }
            prop_assert!(rewritten <= 8 * total);
        }
    }
}
