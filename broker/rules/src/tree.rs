//! The file rules of a policy as a tree of path components, and the steps down in it. Pure.
//!
//! Rules that begin alike share the nodes of their beginning, so that a step takes a look-up for each place that is
//! reached, however many rules lead on from there.

use super::pattern::{Component, Pattern};
use super::quick::QuickMap;
use bitflags::bitflags;
use std::sync::Arc;

bitflags! {
    /// What rules do where they end.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub(super) struct Effects: u8 {
        /// Reads are opened.
        const OPEN_READ = 1;
        /// Reads are closed, until a rule further inside opens them.
        const DENY_READ = 1 << 1;
        /// Writes are opened.
        const ALLOW = 1 << 2;
        /// Writes are denied.
        const DENY = 1 << 3;
        /// Writes are closed, until a rule further inside opens them.
        const CLOSE = 1 << 4;
        /// Writes are no longer denied by a rule further out.
        const REOPEN = 1 << 5;
        /// The path must keep its name.
        const KEEP = 1 << 6;
        /// Of a denial whose `**` begins inside of what may be written: what it singles out could be made beside it.
        const BEGINS_INSIDE = 1 << 7;
    }
}

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    AllowWrite,
    AllowWriteInside,
    DenyWrite,
    DenyRead,
    AllowRead,
    Controls,
}

/// The rule that a verdict rests on: its list, and what it stands for.
pub type Basis<'a> = (List, &'a Pattern);

/// The rules.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    list: List,
    effects: Effects,
    pattern: Pattern,
    /// The rule before it that ends at the same node.
    before: Option<usize>,
}

#[derive(Debug, Default)]
struct Node {
    above: usize,
    /// The last of the rules that end here.
    last: Option<usize>,
    /// Effects of the rules that end further inside, but for those that go on with a `**` here; of those; and of the
    /// ones that have no `**` at all.
    beneath: Effects,
    beneath_any_depth: Effects,
    beneath_of_fixed_depth: Effects,
    /// It stands for any number of names: a step leads back to it as well.
    any_depth: bool,
    /// It, or a node above, does.
    after_any_depth: bool,
    /// None where nothing goes on: most nodes.
    children: Option<Box<Children>>,
}

impl Node {
    fn all_beneath(&self) -> Effects {
        self.beneath | self.beneath_any_depth
    }
}

#[derive(Debug, Default)]
struct Children {
    named: QuickMap<Arc<[u8]>, usize>,
    globs: QuickMap<Component, usize>,
    any_depth: Option<usize>,
}

/// The nodes that a path has led to, none twice.
pub(super) type Places = Vec<usize>;

impl Tree {
    /// A later one of `rules` counts less where several of one effect end.
    pub(super) fn new(rules: impl Iterator<Item = (List, Effects, Pattern)>) -> Tree {
        // What grows is copied, and each copy's pages have to be had from the kernel.
        let count = rules.size_hint().0;
        let mut tree =
            Tree { nodes: Vec::with_capacity(2 * count), rules: Vec::with_capacity(count) };
        tree.nodes.push(Node::default());
        let mut stem_end = 0;
        for (list, effects, pattern) in rules {
            let (stem, last) = pattern.parts();
            if !tree.rules.last().is_some_and(|rule| rule.pattern.is_beside(&pattern)) {
                stem_end = stem.iter().fold(0, |node, component| tree.child(node, component));
            }
            let end = last.map_or(0, |component| tree.child(stem_end, component));
            let before = tree.nodes[end].last.replace(tree.rules.len());
            tree.rules.push(Rule { list, effects, pattern, before });
        }
        // What is above stands before what is beneath.
        for index in (1..tree.nodes.len()).rev() {
            let node = &tree.nodes[index];
            let ends: Effects = tree.ends(node).map(|(_, effects)| effects).collect();
            let all = node.all_beneath() | ends;
            let of_fixed_depth = node.beneath_of_fixed_depth | ends;
            let Node { above, any_depth, after_any_depth, .. } = *node;
            let above = &mut tree.nodes[above];
            let beneath = if any_depth { &mut above.beneath_any_depth } else { &mut above.beneath };
            *beneath |= all;
            if !after_any_depth {
                above.beneath_of_fixed_depth |= of_fixed_depth;
            }
        }
        tree
    }

    /// The node that `component` leads to from `above`, made if there is none.
    fn child(&mut self, above: usize, component: &Component) -> usize {
        let new = self.nodes.len();
        let children = self.nodes[above].children.get_or_insert_default();
        let child = match component {
            Component::Literal(name) => *children.named.entry(Arc::clone(name)).or_insert(new),
            Component::AnyDepth => *children.any_depth.get_or_insert(new),
            Component::Glob(_) => *children.globs.entry(component.clone()).or_insert(new),
        };
        if child == new {
            let any_depth = *component == Component::AnyDepth;
            let after_any_depth = any_depth || self.nodes[above].after_any_depth;
            self.nodes.push(Node { above, any_depth, after_any_depth, ..Node::default() });
        }
        child
    }

    /// Where every path begins.
    pub(super) fn start(&self) -> Places {
        let mut places = Places::new();
        self.reach(0, &mut places);
        places
    }

    /// Adds `node`, and what follows a `**` there, which may stand for nothing.
    fn reach(&self, node: usize, places: &mut Places) {
        let any_depth = self.nodes[node].children.as_ref().and_then(|children| children.any_depth);
        for node in [Some(node), any_depth].into_iter().flatten() {
            if !places.contains(&node) {
                places.push(node);
            }
        }
    }

    /// The step from `places` into the entry `name`: where that leads, and the effects of rules that name this entry and
    /// single out something beneath it, or begin inside of what may be written and count it among those that their `**`
    /// stands for.
    pub(super) fn enter(&self, places: &[usize], name: &[u8]) -> (Places, Effects) {
        let (mut reached, mut lead_on) = (Places::new(), Effects::empty());
        for &place in places {
            let node = &self.nodes[place];
            let Some(children) = &node.children else { continue };
            if node.any_depth {
                self.reach(place, &mut reached);
                lead_on |= node.beneath & Effects::BEGINS_INSIDE;
            }
            let globs = children.globs.iter().filter(|(glob, _)| glob.matches(name));
            for child in children.named.get(name).into_iter().chain(globs.map(|(_, child)| child)) {
                self.reach(*child, &mut reached);
                lead_on |= self.nodes[*child].all_beneath().difference(Effects::BEGINS_INSIDE);
            }
        }
        (reached, lead_on)
    }

    /// The first of the rules with `effect` that end at `places`.
    pub(super) fn first(&self, places: &[usize], effect: Effects) -> Option<usize> {
        let ends = places.iter().flat_map(|place| self.ends(&self.nodes[*place]));
        ends.filter(|(_, effects)| effects.intersects(effect)).map(|(rule, _)| rule).min()
    }

    /// The rules that end at `node`, the last first.
    fn ends(&self, node: &Node) -> impl Iterator<Item = (usize, Effects)> {
        let rules = std::iter::successors(node.last, |rule| self.rules[*rule].before);
        rules.map(|rule| (rule, self.rules[rule].effects))
    }

    /// The effects of the rules that end beneath `place`, but for those that go on with a `**`: it is a place as well.
    pub(super) fn beneath(&self, place: usize) -> Effects {
        self.nodes[place].beneath
    }

    /// Whether `place` stands for any number of names.
    pub(super) fn is_any_depth(&self, place: usize) -> bool {
        self.nodes[place].any_depth
    }

    /// The names by which rules that have one of `effects` go on from `places`, none for any name; of rules without
    /// `**` only, if `fixed`.
    pub(super) fn next(
        &self,
        places: &[usize],
        effects: Effects,
        fixed: bool,
    ) -> impl Iterator<Item = Option<&[u8]>> {
        let counts = move |child: usize| {
            let node = &self.nodes[child];
            let ends = || self.ends(node).any(|(_, of_rule)| of_rule.intersects(effects));
            let beneath = if fixed { node.beneath_of_fixed_depth } else { node.all_beneath() };
            !(fixed && node.after_any_depth) && (beneath.intersects(effects) || ends())
        };
        places.iter().flat_map(move |place| {
            let node = &self.nodes[*place];
            let again = node.any_depth && !fixed && node.beneath.intersects(effects);
            let children = node.children.iter();
            let children = children.flat_map(|children| {
                let named = children.named.iter().map(|(name, child)| (Some(&**name), *child));
                named.chain(children.globs.values().map(|child| (None, *child)))
            });
            let on = children.filter(move |(_, child)| counts(*child)).map(|(name, _)| name);
            again.then_some(None).into_iter().chain(on)
        })
    }

    /// A rule, as a verdict rests on it.
    pub(super) fn basis(&self, rule: usize) -> Basis<'_> {
        (self.rules[rule].list, &self.rules[rule].pattern)
    }
}
