import type { z } from 'zod';
import { Fault } from '../../fault.ts';
import type { BuiltInPlatform } from '../../platform/built-in/built-in-platform.ts';
import type { User } from '../../platform/built-in/users.ts';
import type { Version } from '../../version.ts';
import { parseBody } from '../schema.ts';

/** Who may call. */
export type Access = 'anybody' | 'user' | 'administrator' | 'either';

/** Who calls: a user by an access token, or an administrator of the server. */
export type Actor =
  | {
      readonly kind: 'user';
      readonly user: User;
      /** When the access token ends, ms since the epoch; undefined for one that does not. */
      readonly until: number | undefined;
    }
  | { readonly kind: 'administrator' };

interface Actors {
  readonly anybody: undefined;
  readonly user: Extract<Actor, { kind: 'user' }>;
  readonly administrator: Extract<Actor, { kind: 'administrator' }>;
  readonly either: Actor;
}

/** What every entry point works on. */
export interface Backend {
  readonly platform: BuiltInPlatform;
  readonly version: Version;
}

/** A call in whatever way it came. */
export interface ApiRequest {
  /** What stands in the path for each name in braces. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** Throws a {@link Fault} for who cannot be let in. */
  readonly identify: () => Actor;
  readonly readBody: () => Promise<unknown>;
}

interface Definition<A extends Access, Q extends z.ZodObject, B extends z.ZodType> {
  readonly method: 'get' | 'post' | 'delete';
  /** Below the base, with names in braces for what varies. */
  readonly path: string;
  readonly summary: string;
  readonly access: A;
  readonly query?: Q;
  readonly body?: B;
  readonly answer?: z.ZodType;
  /** Returns the answer; nothing for an answer without a body. */
  run(
    call: {
      readonly actor: Actors[A];
      readonly params: Readonly<Record<string, string>>;
      readonly query: z.output<Q>;
      readonly body: z.output<B>;
    },
    backend: Backend,
  ): object | undefined;
}

export interface EntryPoint
  extends Pick<
    Definition<Access, z.ZodObject, z.ZodType>,
    'method' | 'path' | 'summary' | 'access' | 'query' | 'body' | 'answer'
  > {
  /** Throws a {@link Fault}: 401 and 403 for who may not, 400 for a wrong query or body, and what else goes wrong. */
  call(request: ApiRequest, backend: Backend): Promise<object | undefined>;
}

export function entryPoint<
  A extends Access,
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  B extends z.ZodType = z.ZodUndefined,
>(definition: Definition<A, Q, B>): EntryPoint {
  const { access, run, ...described } = definition;
  const { query: querySchema, body: bodySchema } = definition;
  return {
    ...described,
    access,

    async call({ params, query, identify, readBody }, backend) {
      const actor = admitted(access, identify);
      const call = {
        actor: actor as Actors[A],
        params,
        query: (querySchema ? parseBody(querySchema, query) : {}) as z.output<Q>,
        body: (bodySchema ? parseBody(bodySchema, await readBody()) : undefined) as z.output<B>,
      };
      return run(call, backend);
    },
  };
}

function admitted(access: Access, identify: () => Actor): Actor | undefined {
  if (access === 'anybody') return undefined;
  const actor = identify();
  if (access === 'either' || access === actor.kind) return actor;
  throw new Fault(
    'denied',
    access === 'user'
      ? 'This is for the users of the platform: send an access token (Authorization: Bearer)'
      : "This needs the name and password of an administrator's account (HTTP basic)",
    { phase: 'credentials' },
  );
}

/** The number that stands in a path; throws a {@link Fault} (400) for what is none. */
export function numberOf(text = ''): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new Fault('bad-request', `'${text.slice(0, 40)}' in the path must be a number`, {
    phase: 'request',
  });
}
