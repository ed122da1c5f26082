import { parse } from 'smol-toml';
import { Fault } from '../../foundation/fault.ts';

/** A table of a TOML file. */
export type Table = Readonly<Record<string, unknown>>;

export function refuseLock(name: string, message: string): never {
  throw new Fault('bad-request', `${name}: ${message}`, { phase: 'request' });
}

/** Returns the content of a TOML file. Throws a `Fault` (400) with the place of the fault. */
export function tomlOf(name: string, text: string): Table {
  try {
    return parse(text) as Table;
  } catch (error) {
    const [sentence = ''] = (error as Error).message.split('\n');
    refuseLock(name, `it is not a TOML file that can be read: ${sentence.slice(0, 200)}`);
  }
}

export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns a member that is a text; undefined for any other value. */
export function textIn(table: unknown, member: string): string | undefined {
  const value = memberOf(table, member);
  return typeof value === 'string' ? value : undefined;
}

/** Returns a member of a table; undefined for one that is absent. */
export function memberOf(table: unknown, member: string): unknown {
  return isTable(table) && Object.hasOwn(table, member) ? table[member] : undefined;
}

/** Returns the texts of a list; empty for any other value. */
export function textsIn(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter(one => typeof one === 'string') : [];
}

/** Returns the names of the members of a table; empty for any other value. */
export function namesIn(table: unknown, member: string): readonly string[] {
  const value = memberOf(table, member);
  return isTable(value) ? Object.keys(value) : [];
}
