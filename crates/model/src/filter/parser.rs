//! Reads tokens into an [`Expression`], by recursive descent of bounded depth.

use super::ast::{Expression, Literal, LiteralKind, Name, Test};
use super::lexer::{Token, TokenKind};
use super::{Complaint, Filter};
use crate::Comparison;
use crate::literal::Number;

type Parsed<T> = Result<T, Complaint>;

const KEYWORDS: [&str; 11] = ["AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "STARTS", "WITH", "TRUE", "FALSE"];

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
    depth: usize,
    terms: usize,
}

pub(super) fn parse(tokens: &[Token]) -> Parsed<Expression> {
    let mut parser = Parser { tokens, next: 0, depth: 0, terms: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        Token { kind: TokenKind::End, .. } => Ok(expression),
        token => Err(unexpected(token, "AND, OR or the end")),
    }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Token {
        static END: Token = Token { kind: TokenKind::End, at: 0 };
        self.tokens.get(self.next).or(self.tokens.last()).unwrap_or(&END)
    }

    fn advance(&mut self) -> &'a Token {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn keyword(&mut self, word: &str) -> bool {
        let found = matches!(&self.peek().kind, TokenKind::Word(w) if w.eq_ignore_ascii_case(word));
        self.next += usize::from(found);
        found
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek().kind, TokenKind::Symbol(s) if s == symbol);
        self.next += usize::from(found);
        found
    }

    fn require(&mut self, found: bool, wanted: &str) -> Parsed<()> {
        if found { Ok(()) } else { Err(unexpected(self.peek(), wanted)) }
    }

    fn expression(&mut self) -> Parsed<Expression> {
        let first = self.conjunction()?;
        let mut terms = vec![first];
        while self.keyword("OR") {
            terms.push(self.conjunction()?);
        }
        Ok(one_or(terms, Expression::Or))
    }

    fn conjunction(&mut self) -> Parsed<Expression> {
        let first = self.negation()?;
        let mut terms = vec![first];
        while self.keyword("AND") {
            terms.push(self.negation()?);
        }
        Ok(one_or(terms, Expression::And))
    }

    fn negation(&mut self) -> Parsed<Expression> {
        self.deeper()?;
        let at_not = self.keyword("NOT");
        let parsed = if at_not {
            Expression::Not(Box::new(self.negation()?))
        } else if self.symbol("(") {
            let inner = self.expression()?;
            let closed = self.symbol(")");
            self.require(closed, "`)`, AND or OR")?;
            inner
        } else {
            self.predicate()?
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth > Filter::MAX_DEPTH {
            return Err(Complaint::new(
                self.peek().at,
                format!("parentheses and NOT nest deeper than {}", Filter::MAX_DEPTH),
            ));
        }
        Ok(())
    }

    fn predicate(&mut self) -> Parsed<Expression> {
        let name = self.name()?;
        let token = self.peek();
        if let TokenKind::Symbol(symbol) = token.kind
            && let Some(comparison) = comparison(symbol)
        {
            self.next += 1;
            let literal = self.literal()?;
            return Ok(Expression::Predicate(name, Test::Compare(comparison, literal)));
        }
        if self.keyword("IS") {
            let negated = self.keyword("NOT");
            let null = self.keyword("NULL");
            self.require(null, "NULL after IS")?;
            self.count(token.at)?;
            return Ok(Expression::Predicate(name, Test::Null { negated }));
        }
        let negated = self.keyword("NOT");
        let test = if self.keyword("IN") {
            Test::In { negated, list: self.list()? }
        } else if self.keyword("BETWEEN") {
            let low = self.literal()?;
            let and = self.keyword("AND");
            self.require(and, "AND between the two ends of BETWEEN")?;
            Test::Between { negated, low, high: self.literal()? }
        } else if self.keyword("STARTS") {
            let with = self.keyword("WITH");
            self.require(with, "WITH after STARTS")?;
            Test::StartsWith { negated, prefix: self.literal()? }
        } else {
            let wanted = if negated {
                "IN, BETWEEN or STARTS WITH"
            } else {
                "a comparison (= != < <= > >=), IN, BETWEEN, IS or STARTS WITH"
            };
            return Err(unexpected(self.peek(), wanted));
        };
        Ok(Expression::Predicate(name, test))
    }

    fn name(&mut self) -> Parsed<Name> {
        let token = self.peek();
        let text = match &token.kind {
            TokenKind::Quoted(name) => name,
            TokenKind::Word(word) if !KEYWORDS.iter().any(|k| k.eq_ignore_ascii_case(word)) => word,
            _ => return Err(unexpected(token, "a column name, NOT or `(`")),
        };
        self.next += 1;
        Ok(Name { text: text.clone(), at: token.at })
    }

    fn list(&mut self) -> Parsed<Vec<Literal>> {
        let open = self.symbol("(");
        self.require(open, "`(` after IN")?;
        let mut list = vec![self.literal()?];
        while self.symbol(",") {
            list.push(self.literal()?);
        }
        let closed = self.symbol(")");
        self.require(closed, "`,` or `)`")?;
        Ok(list)
    }

    fn literal(&mut self) -> Parsed<Literal> {
        let token = self.advance();
        let kind = match &token.kind {
            TokenKind::Text(text) => LiteralKind::Text(text.clone()),
            TokenKind::Number(number) if Number::parse(number).is_some() => LiteralKind::Number(number.clone()),
            TokenKind::Number(number) => {
                return Err(Complaint::new(token.at, format!("`{}` is no number", shown(number))));
            }
            TokenKind::Word(word) if word.eq_ignore_ascii_case("TRUE") => LiteralKind::Boolean(true),
            TokenKind::Word(word) if word.eq_ignore_ascii_case("FALSE") => LiteralKind::Boolean(false),
            TokenKind::Word(word) if word.eq_ignore_ascii_case("NULL") => {
                return Err(Complaint::new(
                    token.at,
                    "nothing compares with NULL; write `column IS NULL` or `column IS NOT NULL`",
                ));
            }
            _ => return Err(unexpected(token, "a literal: a number, 'text', TRUE or FALSE")),
        };
        self.count(token.at)?;
        Ok(Literal { kind, at: token.at })
    }

    fn count(&mut self, at: usize) -> Parsed<()> {
        self.terms += 1;
        if self.terms > Filter::MAX_TERMS {
            return Err(Complaint::new(at, format!("more than {} literals", Filter::MAX_TERMS)));
        }
        Ok(())
    }
}

fn one_or(mut terms: Vec<Expression>, all: fn(Vec<Expression>) -> Expression) -> Expression {
    match terms.pop() {
        Some(only) if terms.is_empty() => only,
        Some(last) => {
            terms.push(last);
            all(terms)
        }
        None => all(terms),
    }
}

fn comparison(symbol: &str) -> Option<Comparison> {
    Some(match symbol {
        "=" => Comparison::Eq,
        "!=" => Comparison::NotEq,
        "<" => Comparison::Lt,
        "<=" => Comparison::LtEq,
        ">" => Comparison::Gt,
        ">=" => Comparison::GtEq,
        _ => return None,
    })
}

fn unexpected(token: &Token, wanted: &str) -> Complaint {
    let found = match &token.kind {
        TokenKind::Word(word) => format!("`{}`", shown(word)),
        TokenKind::Quoted(name) => format!("\"{}\"", shown(name)),
        TokenKind::Text(text) => format!("'{}'", shown(text)),
        TokenKind::Number(number) => format!("`{}`", shown(number)),
        TokenKind::Symbol(symbol) => format!("`{symbol}`"),
        TokenKind::End => "the end".to_owned(),
    };
    Complaint::new(token.at, format!("expected {wanted}, found {found}"))
}

fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().count() > 40 {
        shown.push('…');
    }
    shown
}
