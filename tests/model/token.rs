//! Tokens as numbers, and sets of them.

/// The most tokens of one client that can be told apart; a `Size` may allow fewer.
pub(super) const TOKENS: Token = 3;

/// A token, by its number among its client's tokens. Two clients never share one.
pub(super) type Token = u8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TokenSet(u8);

impl TokenSet {
    pub(super) fn insert(&mut self, token: Token) {
        self.0 |= 1 << token;
    }

    pub(super) fn contains(self, token: Token) -> bool {
        self.0 & (1 << token) != 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Token> {
        (0..TOKENS).filter(move |&token| self.contains(token))
    }

    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(super) fn and(self, other: TokenSet) -> TokenSet {
        TokenSet(self.0 & other.0)
    }
}
