import { projectName } from '../wheel-file.ts';
import { meets } from './python-versions.ts';

/** The system that a marker is evaluated for. */
export interface MarkerSystem {
  /** Full version of Python, such as `3.12.4`. */
  readonly version: string;
  readonly machine: string;
  /** Names of extras and dependency groups that are installed. Default: none. */
  readonly extras?: readonly string[] | undefined;
  readonly groups?: readonly string[] | undefined;
}

/** A marker that cannot be read. */
export class MarkerProblem extends Error {}

const longest = 10_000;
const mostDepth = 40;
const tokenGrammar = /\s|[()]|"[^"]*"|'[^']*'|===|~=|==|!=|<=|>=|<|>|[A-Za-z_][A-Za-z0-9_.]*/y;

/**
 * Returns whether a marker holds for a system. Throws a {@link MarkerProblem}. Source: PyPA specifications, Dependency specifiers,
 * and `pylock.toml` for `extras` and `dependency_groups`.
 */
export function markerHolds(marker: string, system: MarkerSystem): boolean {
  const tokens = tokensOf(marker);
  let at = 0;
  let depth = 0;
  const next = () => {
    const token = tokens[at];
    at += 1;
    if (token === undefined) throw new MarkerProblem('it ends too early');
    return token;
  };

  // Both sides are always read: the rest must be a marker, too.
  const either = (): boolean => {
    let holds = both();
    while (tokens[at] === 'or') {
      at += 1;
      holds = both() || holds;
    }
    return holds;
  };
  const both = (): boolean => {
    let holds = one();
    while (tokens[at] === 'and') {
      at += 1;
      holds = one() && holds;
    }
    return holds;
  };
  const one = (): boolean => {
    if (tokens[at] !== '(') return comparison();
    at += 1;
    depth += 1;
    if (depth > mostDepth) throw new MarkerProblem('it is nested too deep');
    const holds = either();
    if (next() !== ')') throw new MarkerProblem('a bracket is not closed');
    depth -= 1;
    return holds;
  };
  const comparison = (): boolean => {
    const left = next();
    const word = next();
    const operator = word === 'not' ? `not ${next()}` : word;
    return compared(left, operator, next(), system);
  };

  const holds = either();
  if (at < tokens.length) throw new MarkerProblem('it has more than a marker');
  return holds;
}

function tokensOf(marker: string): readonly string[] {
  const text = marker.trimEnd();
  if (text.length > longest) throw new MarkerProblem('it is too long');
  const tokens: string[] = [];
  tokenGrammar.lastIndex = 0;
  while (tokenGrammar.lastIndex < text.length) {
    const [found] = tokenGrammar.exec(text) ?? [];
    if (found === undefined) throw new MarkerProblem('it has an unknown sign');
    if (found.trim() !== '') tokens.push(found);
  }
  return tokens;
}

function compared(left: string, operator: string, right: string, system: MarkerSystem): boolean {
  const sets = { extras: system.extras, dependency_groups: system.groups } as const;
  if (right === 'extras' || right === 'dependency_groups') {
    const isListed = (sets[right] ?? []).map(projectName).includes(projectName(textOf(left)));
    if (operator === 'in') return isListed;
    if (operator === 'not in') return !isListed;
    throw new MarkerProblem(`${right} is compared`);
  }
  if (left === 'extra' || right === 'extra') {
    const name = projectName(textOf(left === 'extra' ? right : left));
    const isListed = (system.extras ?? []).map(projectName).includes(name);
    return operator === '!=' ? !isListed : isListed;
  }
  const [one, other] = [markerValue(left, system), markerValue(right, system)];
  if (operator === 'in') return other.includes(one);
  if (operator === 'not in') return !other.includes(one);
  const isVersion = /version/.test(left) || /version/.test(right);
  const asVersions = isVersion ? meets(one, { operator, version: other }) : undefined;
  if (asVersions !== undefined) return asVersions;
  switch (operator) {
    case '==':
    case '===':
      return one === other;
    case '!=':
      return one !== other;
    case '<':
      return one < other;
    case '>':
      return one > other;
    case '<=':
      return one <= other;
    case '>=':
      return one >= other;
    default:
      throw new MarkerProblem('it has an unknown operator');
  }
}

function markerValue(token: string, { version, machine }: MarkerSystem): string {
  if (/^['"]/.test(token)) return textOf(token);
  switch (token) {
    case 'python_version':
      return version.split('.').slice(0, 2).join('.');
    case 'python_full_version':
    case 'implementation_version':
      return version;
    case 'os_name':
    case 'os.name':
      return 'posix';
    case 'sys_platform':
    case 'sys.platform':
      return 'linux';
    case 'platform_machine':
    case 'platform.machine':
      return machine;
    case 'platform_system':
      return 'Linux';
    case 'platform_python_implementation':
    case 'platform.python_implementation':
    case 'python_implementation':
      return 'CPython';
    case 'implementation_name':
      return 'cpython';
    case 'platform_release':
    case 'platform_version':
    case 'platform.version':
      return '';
    default:
      throw new MarkerProblem(`${token.slice(0, 60)} is unknown`);
  }
}

function textOf(token: string): string {
  if (!/^['"]/.test(token))
    throw new MarkerProblem(`${token.slice(0, 60)} is not a text in quotes`);
  return token.slice(1, -1);
}
