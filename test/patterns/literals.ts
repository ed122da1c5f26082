import { SyntaxKind } from 'typescript/unstable/ast';
import { createScanner } from 'typescript/unstable/ast/scanner';

/** A pattern in a source file. */
export interface Literal {
  readonly line: number;
  /** Undefined for one that the program puts together. */
  readonly pattern: RegExp | undefined;
  /** True if it is applied again behind each match. */
  readonly isRepeated: boolean;
}

/** After these, a slash divides. */
const values: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.Identifier,
  SyntaxKind.PrivateIdentifier,
  SyntaxKind.NumericLiteral,
  SyntaxKind.BigIntLiteral,
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateTail,
  SyntaxKind.RegularExpressionLiteral,
  SyntaxKind.CloseParenToken,
  SyntaxKind.CloseBracketToken,
  SyntaxKind.CloseBraceToken,
  SyntaxKind.ThisKeyword,
  SyntaxKind.NullKeyword,
  SyntaxKind.TrueKeyword,
  SyntaxKind.FalseKeyword,
]);

/** Returns the regular expressions of a TypeScript or JavaScript source, in their order. */
export function literalsIn(source: string): Literal[] {
  const scanner = createScanner(true, undefined, source);
  const literals: Literal[] = [];
  /** For each open brace, whether it is in a template. */
  const braces: boolean[] = [];
  let [before, last] = ['', ''];
  let kind = SyntaxKind.Unknown;
  const next = (): SyntaxKind => {
    const found = scanner.scan();
    if (found === SyntaxKind.SlashToken && !values.has(kind)) return scanner.reScanSlashToken();
    if (found === SyntaxKind.CloseBraceToken && braces.pop()) {
      return scanner.reScanTemplateToken(false);
    }
    return found;
  };
  for (kind = next(); kind !== SyntaxKind.EndOfFile; kind = next()) {
    const text = scanner.getTokenText();
    if (kind === SyntaxKind.OpenBraceToken) braces.push(false);
    if (kind === SyntaxKind.TemplateHead || kind === SyntaxKind.TemplateMiddle) braces.push(true);
    const line = () => source.slice(0, scanner.getTokenStart()).split('\n').length;
    if (kind === SyntaxKind.RegularExpressionLiteral && !scanner.isUnterminated()) {
      const end = text.lastIndexOf('/');
      const pattern = new RegExp(text.slice(1, end), text.slice(end + 1));
      const isRepeated = pattern.global || pattern.sticky || (before === 'split' && last === '(');
      literals.push({ line: line(), pattern, isRepeated });
    } else if (last === 'RegExp' && text === '(') {
      literals.push({ line: line(), pattern: undefined, isRepeated: false });
    }
    [before, last] = [last, text];
  }
  return literals;
}
