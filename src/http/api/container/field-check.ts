import { z } from 'zod';
import { Fault } from '../../../foundation/fault.ts';
import { nearestName } from '../../errors/nearest-name.ts';
import { fieldAliases, withoutAliases } from '../aliases.ts';
import { clientFields } from './client-fields.ts';

/** The parts of a JSON schema that list its fields. */
interface Shape {
  readonly items?: Shape;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly anyOf?: readonly Shape[];
}

const mostWarnings = 10;
// Characters shown of a name that a client chose.
const shownName = 80;

/**
 * Returns a check for fields that are not in the schema of a request. The check returns a sentence for each ignored
 * field. It throws a {@link Fault} (400) for a field that cannot be ignored safely.
 */
export function createFieldCheck(schema: z.ZodType): (body: unknown) => readonly string[] {
  const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
  const byPath = new Map(clientFields.map(field => [field.path, field]));
  /** Returns the known field names at a path. */
  const namesAt = (path: string, properties: Readonly<Record<string, Shape>>) => {
    const beginning = path === '' ? '' : `${path}.`;
    const others = clientFields
      .filter(field => field.path.startsWith(beginning))
      .map(field => field.path.slice(beginning.length))
      .filter(name => !name.includes('.'));
    return [
      ...Object.keys(properties),
      ...others,
      ...(path === '' ? Object.keys(fieldAliases) : []),
    ];
  };

  return body => {
    const warnings: string[] = [];
    const given = withoutAliases(body) as Readonly<Record<string, unknown>>;
    for (const { place, path, name, value, properties } of unknownIn(shape, given)) {
      const shown = `'${inOneLine(place)}'`;
      const objection = byPath.get(path)?.objection(value, given);
      if (objection && 'refusal' in objection) {
        throw new Fault('bad-request', `${shown} ${objection.refusal}`, { phase: 'request' });
      }
      if (warnings.length > mostWarnings) continue;
      if (objection) warnings.push(`${shown} ${objection.warning}`);
      if (byPath.has(path)) continue;
      const parent = path.slice(0, -name.length).replace(/\.$/, '');
      const nearest = nearestName(name.slice(0, shownName), namesAt(parent, properties));
      const advice = nearest === undefined ? '' : `: did you mean '${nearest}'?`;
      warnings.push(`${shown} is not a field of this API, and is ignored${advice}`);
    }
    return warnings.length > mostWarnings
      ? [...warnings.slice(0, mostWarnings), 'Further fields are ignored, too']
      : warnings;
  };
}

interface UnknownField {
  /** `containerConfig.layers[0].skipHashing` */
  readonly place: string;
  /** `containerConfig.layers[].skipHashing` */
  readonly path: string;
  readonly name: string;
  readonly value: unknown;
  /** The fields that the schema has at the same place. */
  readonly properties: Readonly<Record<string, Shape>>;
}

function* unknownIn(shape: Shape, value: unknown, place = '', path = ''): Generator<UnknownField> {
  if (typeof value !== 'object' || value === null) return;
  for (const one of shape.anyOf ?? []) yield* unknownIn(one, value, place, path);
  const { items, properties } = shape;
  if (Array.isArray(value)) {
    if (!items || !(items.properties ?? items.anyOf)) return;
    for (const [at, item] of value.entries()) {
      yield* unknownIn(items, item, `${place}[${at}]`, `${path}[]`);
    }
    return;
  }
  if (!properties) return;
  const dot = place === '' ? '' : '.';
  for (const [name, inner] of Object.entries(value)) {
    if (inner === null || inner === undefined) continue;
    const at = `${place}${dot}${name}`;
    const known = Object.hasOwn(properties, name) ? properties[name] : undefined;
    if (known) yield* unknownIn(known, inner, at, `${path}${dot}${name}`);
    else yield { place: at, path: `${path}${dot}${name}`, name, value: inner, properties };
  }
}

function inOneLine(name: string): string {
  const line = name.slice(0, shownName).replace(/[^ -~]/g, '?');
  return name.length > shownName ? `${line}...` : line;
}
