import type { Database } from '../../src/storage/rows/database.ts';

/** One `SELECT` of a statement, without those inside it; `?` stands in their places. */
type Scope = string;

/** Columns of one table that must equal a value which is known when its rows are looked up. */
interface GivenColumns {
  readonly table: string;
  readonly columns: ReadonlySet<string>;
}

const keywords = new Set(['where', 'set', 'order', 'on', 'cross', 'join', 'group', 'limit', 'as']);

/**
 * Returns the lookups of a plan that use fewer columns than an index offers for the values that the statement gives: they
 * read rows that are not needed. An example is one repository in place of one subject in it.
 */
export function wastefulLookups(
  database: Database,
  sql: string,
  plan: readonly string[],
): readonly string[] {
  const given = givenColumns(database, sql);
  return plan.filter(detail => {
    const [, alias = '', use = ''] = /^(?:SEARCH|SCAN) (\w+)(.*)$/.exec(detail) ?? [];
    const possible = (given.get(alias) ?? []).map(one => longestPrefix(database, one));
    const used = use.match(/=\?/g)?.length ?? 0;
    // A name may stand for several tables of a statement.
    return possible.length > 0 && used < Math.min(...possible);
  });
}

/** Returns the columns with given values, by the name that the plan uses for the table. */
function givenColumns(database: Database, sql: string): Map<string, GivenColumns[]> {
  const found = new Map<string, GivenColumns[]>();
  for (const scope of scopesOf(sql)) {
    const tables = tablesOf(scope);
    const where = /\bWHERE\b(.*)$/is.exec(scope)?.[1] ?? '';
    const equalities = /\bOR\b/i.test(where) ? [] : where.matchAll(equality);
    const columns = new Map([...tables.keys()].map(alias => [alias, new Set<string>()]));
    for (const [, owner, column = '', other] of equalities) {
      // The order of a join decides which side is known first.
      if (other !== undefined && tables.has(other)) continue;
      for (const [alias, table] of tables) {
        const isIts = owner === undefined ? hasColumn(database, table, column) : owner === alias;
        if (isIts) columns.get(alias)?.add(column);
      }
    }
    for (const [alias, table] of tables) {
      const all = found.get(alias) ?? [];
      found.set(alias, [...all, { table, columns: columns.get(alias) ?? new Set() }]);
    }
  }
  return found;
}

const equality = /(?<![\w.])(?:(\w+)\.)?(\w+) = (?:\?|@\w+|\d+|'[^']*'|(\w+)\.\w+)/g;

function scopesOf(sql: string): Scope[] {
  const scopes: Scope[] = [];
  let rest = sql.replace(/--.*$/gm, '').replace(/\s+/g, ' ');
  const inner = /\((SELECT [^()]*(?:\((?!SELECT)[^()]*\)[^()]*)*)\)/i;
  for (let match = inner.exec(rest); match; match = inner.exec(rest)) {
    scopes.push(match[1] ?? '');
    rest = rest.replace(match[0], () => '?');
  }
  return [...scopes, rest];
}

function tablesOf(scope: Scope): Map<string, string> {
  const tables = new Map<string, string>();
  const names = /\b(?:FROM|JOIN|UPDATE) (\w+)(?: (?:AS )?(\w+))?/gi;
  for (const [, table = '', alias] of scope.matchAll(names)) {
    tables.set(alias && !keywords.has(alias.toLowerCase()) ? alias : table, table);
  }
  return tables;
}

function hasColumn(database: Database, table: string, column: string): boolean {
  return columnsOf(database, table).some(({ name }) => name === column);
}

function columnsOf(database: Database, table: string) {
  return database.prepare(`PRAGMA table_info(${table})`).all() as { name: string; pk: number }[];
}

/** Returns how many columns of an index the given ones fill from its beginning, for the index that they fill most. */
function longestPrefix(database: Database, { table, columns }: GivenColumns): number {
  const indexes = database.prepare(`PRAGMA index_list(${table})`).all() as {
    name: string;
    partial: number;
  }[];
  const keys = indexes
    .filter(({ name, partial }) => partial === 0 || isUsable(database, name, columns))
    .map(({ name }) =>
      (database.prepare(`PRAGMA index_info(${name})`).all() as { name: string }[]).map(
        one => one.name,
      ),
    );
  const primary = columnsOf(database, table).filter(({ pk }) => pk > 0);
  keys.push(primary.sort((one, other) => one.pk - other.pk).map(({ name }) => name));
  const lengths = keys.map(key => {
    const missing = key.findIndex(column => !columns.has(column));
    return missing < 0 ? key.length : missing;
  });
  return Math.max(0, ...lengths);
}

/** Returns whether a partial index has the rows: those in which a given column is not null. */
function isUsable(database: Database, index: string, columns: ReadonlySet<string>): boolean {
  const text = database.prepare('SELECT sql FROM sqlite_master WHERE name = ?').pluck().get(index);
  const [, column = ''] = /WHERE (\w+) IS NOT NULL$/.exec(String(text)) ?? [];
  return columns.has(column);
}
