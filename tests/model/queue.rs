//! What is under way in one direction of one connection.

/// At most two things, in order: the protocol never has more under way on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Queue<T>([Option<T>; 2]);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Queue([None, None])
    }
}

impl<T: Copy> Queue<T> {
    /// Panics if two are there already: that would be a fault of the model.
    pub(super) fn push(&mut self, item: T) {
        let free = self.0.iter_mut().find(|place| place.is_none());
        *free.expect("no more than two things are under way on a connection") = Some(item);
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let [first, second] = self.0;
        self.0 = [second, None];
        first
    }

    pub(super) fn retain(&mut self, keep: impl Fn(T) -> bool) {
        let [first, second] = self.0.map(|item| item.filter(|&item| keep(item)));
        // Equal contents must be equal states, so nothing may stand behind a gap.
        self.0 = if first.is_some() {
            [first, second]
        } else {
            [second, None]
        };
    }

    pub(super) fn first(&self) -> Option<T> {
        self.0[0]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().flatten().copied()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten()
    }
}
