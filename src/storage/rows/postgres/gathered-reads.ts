import type { Sent, StatementResult, StatementResults } from '../row-database.ts';
import { PostgresCall, storable } from './postgres-statements.ts';

/** Calls that are sent as one statement: the same text, each with one value. */
interface Gathered {
  readonly calls: PostgresCall<unknown>[];
  /** Their positions among all calls. */
  readonly places: number[];
}

/**
 * Reads with calls in one round trip. Calls of the same statement that read one row by one key become one statement: its values and
 * responses cost less than those of many.
 *
 * @param send runs statements in one round trip
 */
export async function readGathered(
  send: (calls: Sent) => Promise<StatementResults>,
  calls: readonly PostgresCall<unknown>[],
): Promise<StatementResults> {
  const groups = new Map<string, Gathered>();
  for (const [place, call] of calls.entries()) {
    const kind = kindOf(call);
    const key = kind === undefined ? `place ${place}` : `${call.name} ${kind}`;
    const group = groups.get(key) ?? { calls: [], places: [] };
    group.calls.push(call);
    group.places.push(place);
    groups.set(key, group);
  }
  const sent = [...groups.values()];
  const results = await send(sent.map(({ calls }) => oneOf(calls)));
  const all: StatementResult[] = calls.map(() => ({ rows: [], changes: 0 }));
  for (const [at, { calls, places }] of sent.entries()) {
    const { [at]: result } = results;
    const [first = 0] = places;
    if (!result) continue;
    if (calls.length === 1) all[first] = result;
    else {
      for (const row of result.rows as readonly Readonly<Record<string, unknown>>[]) {
        const place = places[Number(row[placeName]) - 1];
        if (place !== undefined) all[place] = { rows: [row], changes: 1 };
      }
    }
  }
  return all;
}

const placeName = 'gathered_place';

/** Returns the type of the one key of a call; undefined for a call that is sent by itself. */
function kindOf({ isOfOneRow, values }: PostgresCall<unknown>): 'bytea' | 'text' | undefined {
  const [value] = values;
  if (!isOfOneRow || values.length !== 1) return undefined;
  if (value instanceof Uint8Array) return 'bytea';
  return typeof value === 'string' ? 'text' : undefined;
}

function oneOf(calls: readonly PostgresCall<unknown>[]): PostgresCall<unknown> {
  const [first] = calls;
  if (!first) throw new Error('a group has a call');
  if (calls.length === 1) return first;
  const kind = kindOf(first);
  const inner = first.text.replaceAll('$1', 'k.value');
  // The place is last: a single column is read by its position.
  const text = `SELECT x.*, k.place AS ${placeName} FROM unnest($1::${kind}[]) WITH ORDINALITY AS k(value, place)
    CROSS JOIN LATERAL ((${inner}) LIMIT 1) x`;
  const values = calls.map(({ values: [value] }) => storable(value));
  return new PostgresCall({ name: `${first.name} ${kind}s`, text }, [values as never], () => {});
}
