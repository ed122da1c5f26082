import type { Random } from './random.ts';
import { mutated, oddText } from './texts.ts';

/** A JSON value with something in it changed: another type, another text, more or less of it. */
export function mutatedJson(random: Random, value: unknown): unknown {
  if (random.once(12)) return oddValue(random);
  if (typeof value === 'string') return random.once(3) ? mutated(random, value) : value;
  if (Array.isArray(value)) {
    const list = value.map(item => (random.once(3) ? mutatedJson(random, item) : item));
    if (random.once(6)) list.push(oddValue(random));
    if (random.once(40)) return Array.from({ length: 3000 }, () => list[0] ?? 'a');
    return list;
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value)
    .filter(() => !random.once(10))
    .map(([name, inner]) => [
      random.once(30) ? mutated(random, name) : name,
      random.once(2) ? mutatedJson(random, inner) : inner,
    ]);
  if (random.once(8)) entries.push([oddText(random), oddValue(random)]);
  return Object.fromEntries(entries);
}

function oddValue(random: Random): unknown {
  switch (random.int(9)) {
    case 0:
      return null;
    case 1:
      return random.pick([0, -1, 1.5, 1e308, 2 ** 53, true, false]);
    case 2:
      return [];
    case 3:
      return {};
    case 4:
      return [oddText(random)];
    case 5:
      return { [oddText(random)]: oddText(random) };
    case 6:
      return nested(20 + random.int(30));
    default:
      return oddText(random);
  }
}

function nested(depth: number): unknown {
  let value: unknown = [];
  for (let level = 0; level < depth; level += 1) value = level % 2 ? [value] : { a: value };
  return value;
}

/** The text of a JSON value, once in a while not JSON any more. */
export function jsonText(random: Random, value: unknown): Buffer {
  const text = JSON.stringify(value) ?? '';
  if (!random.once(15)) return Buffer.from(text);
  return random.once(4)
    ? random.bytes(random.int(200))
    : Buffer.from(mutated(random, text), 'latin1');
}
