import { takePatterns } from '../../foundation/text/index.ts';

/** A scheme of authentication that a server offers. Source: RFC 9110, section 11.6.1. */
export interface Challenge {
  /** Lower case: `basic`, `bearer`. */
  readonly scheme: string;
  /** Parameters by lower-case name. */
  readonly parameters: Readonly<Record<string, string>>;
}

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const schemePattern = new RegExp(`(${token})(?=[\\s,]|$)`, 'y');
// Some schemes have one bare value instead of parameters; no code here needs it.
const token68Pattern = /[ \t]+[A-Za-z0-9._~+/-]+=*[ \t]*(?=,|$)/y;
const parameterPattern = new RegExp(
  `(${token})\\s*=\\s*(?:"((?:[^"\\\\]|\\\\.)*)"|([^\\s,"]*))\\s*`,
  'y',
);
const separatorPattern = /[\s,]+/y;

/**
 * Parses a `WWW-Authenticate` value. It may contain several challenges, separated by the same commas that separate
 * parameters. Unreadable text ends the list; nothing is thrown.
 */
export function parseChallenges(header: string): Challenge[] {
  const challenges: Challenge[] = [];
  const take = takePatterns(header);
  for (;;) {
    take(separatorPattern);
    const parameter = take(parameterPattern);
    const current = challenges.at(-1);
    if (parameter && current) {
      const [, name = '', quoted, bare = ''] = parameter;
      const parameters = current.parameters as Record<string, string>;
      parameters[name.toLowerCase()] = quoted?.replace(/\\(.)/g, '$1') ?? bare;
      continue;
    }
    const scheme = parameter ? null : take(schemePattern);
    if (!scheme) break;
    take(token68Pattern);
    challenges.push({ scheme: (scheme[1] ?? '').toLowerCase(), parameters: Object.create(null) });
  }
  return challenges;
}
