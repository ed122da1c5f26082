import { globSync, readFileSync } from 'node:fs';
import type { Database } from '../../src/storage/rows/database.ts';

type CreateStore = (database: Database) => unknown;

/** The statements of a file with stores. */
export interface StoreStatements {
  readonly file: string;
  readonly statements: readonly string[];
}

/** Returns the statements that each store prepares, as it writes them. */
export async function storeStatements(database: Database): Promise<StoreStatements[]> {
  const files = globSync(new URL('../../src/storage/rows/**/*.ts', import.meta.url).pathname);
  const found = files.map(async file => ({ file, statements: await statementsOf(file, database) }));
  return Promise.all(found);
}

async function statementsOf(file: string, database: Database): Promise<string[]> {
  const statements: string[] = [];
  const recording = new Proxy(database, {
    get(target, name) {
      const member = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]) => {
        if (name === 'sql') statements.push(String(given[0]));
        return member.apply(target, given);
      };
    },
  });
  // Others are separate threads.
  if (!/export function create\w+Store\(/.test(readFileSync(file, 'utf8'))) return [];
  const module: Record<string, unknown> = await import(file);
  for (const [name, create] of Object.entries(module)) {
    if (/^create\w+Store$/.test(name)) (create as CreateStore)(recording);
  }
  return statements;
}
