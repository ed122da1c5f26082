import { z } from 'zod';
import { Fault } from '../../../foundation/fault.ts';
import { nearestName } from '../../../foundation/nearest-name.ts';
import { fieldAliases, withoutAliases } from '../../aliases.ts';

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
  // Made with the first request: a start is faster without.
  let shape: Shape | undefined;
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
    shape ??= z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Shape;
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

/** The result of checking a value in a field that this server does not support. */
type Objection =
  | { readonly refusal: string }
  | { readonly warning: string }
  /** The value has no effect. */
  | undefined;

/** A field that clients of this API send although the schema of a request does not have it. */
interface ClientField {
  /** `packages.pixiOpts.pixiImage` */
  readonly path: string;
  /** How the documentation describes the handling of the field. */
  readonly handling: 'refused' | 'warning' | 'no effect';
  readonly about: string;
  /** Returns the objection to a value in a body, as the rest of a sentence that begins with the name of the field. */
  readonly objection: (value: unknown, body: Readonly<Record<string, unknown>>) => Objection;
}

const ignored = (why: string) => (value: unknown) =>
  isSomething(value) ? { warning: `is ignored: ${why}` } : undefined;

const condaTemplates = /^conda\/(?:micromamba:v[12]|pixi:v1)$/;
const cranTemplates = /^cran\/installr:v1$/;

const layerHint: Omit<ClientField, 'path'> = {
  handling: 'no effect',
  about: 'Used by the client only: how it computes its fingerprint',
  objection: () => undefined,
};

/**
 * Fields of existing clients that this server does not support. It refuses fields that would change the image or
 * promise something about it, and warns about the others. Source: reference service, container request.
 */
export const clientFields: readonly ClientField[] = [
  {
    path: 'buildTemplate',
    handling: 'warning',
    about:
      'Sluice makes images of packages in its own way, which `dryRun` shows. With `packages`, a template for another type of packages is refused',
    objection: (value, { packages }) => {
      if (!isSomething(value)) return undefined;
      if (!isSomething(packages)) {
        return { warning: "is ignored: it is for 'packages', and the request has none" };
      }
      const type = (packages as { readonly type?: unknown }).type;
      const isCran = typeof type === 'string' && type.toUpperCase() === 'CRAN';
      const known = isCran ? cranTemplates : condaTemplates;
      if (typeof value === 'string' && known.test(value)) {
        return {
          warning: `is ignored: this server makes images of ${isCran ? 'R' : 'Conda'} packages in its own way, which a dry run shows`,
        };
      }
      return {
        refusal: `names a template that this server does not have for ${isCran ? 'R' : 'Conda'} packages: leave it out, or send a Dockerfile as 'containerFile'`,
      };
    },
  },
  {
    path: 'spackTarget',
    handling: 'warning',
    about: 'Spack is deprecated',
    objection: ignored('Spack is deprecated'),
  },
  {
    path: 'packages.pixiOpts.pixiImage',
    handling: 'warning',
    about: 'Conda packages are not installed with pixi',
    objection: ignored('Conda packages are not installed with pixi here'),
  },
  {
    path: 'packages.spackOpts',
    handling: 'warning',
    about: 'For packages of type `SPACK`, which is refused',
    objection: ignored('it is for packages of type SPACK'),
  },
  { path: 'containerConfig.layers[].skipHashing', ...layerHint },
  { path: 'buildContext.skipHashing', ...layerHint },
];

/** Returns false for values that clients send in fields that the user did not set. */
function isSomething(value: unknown): boolean {
  if (value === null || value === undefined || value === false || value === '') return false;
  return typeof value !== 'object' || Object.keys(value).length > 0;
}
