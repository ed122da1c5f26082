import type { z } from 'zod';
import { Fault } from '../../foundation/fault.ts';
import type { Version } from '../../foundation/version.ts';
import type { AdministratorRole } from '../../hosted/accounts/index.ts';
import {
  type BuiltInPlatform,
  requireScope,
  type TokenRights,
  type TokenScope,
  type User,
} from '../../platform/built-in/index.ts';
import type { AuditKind, AuditLog } from '../../storage/rows/index.ts';
import { requireRole } from '../callers/basic-auth.ts';
import type { Declaration, ParamSchemas, ParamsOf } from '../route/declaration.ts';
import { parseBody, parseParams, parseQuery } from '../route/parse-input.ts';

/** The callers that an entry point accepts. */
export type Access = 'anybody' | 'user' | 'administrator' | 'either';

/** The caller: a user with an access token, or an administrator of the server. */
export type Actor =
  | {
      readonly kind: 'user';
      readonly user: User;
      /** Time when the access token expires, ms since the epoch; undefined if it does not expire. */
      readonly until: number | undefined;
      /** The limits of the access token; undefined for none. */
      readonly rights: TokenRights | undefined;
    }
  | {
      readonly kind: 'administrator';
      /** `account admin`, `command line (root)`. */
      readonly name: string;
      readonly roles: readonly AdministratorRole[];
    };

interface Actors {
  readonly anybody: undefined;
  readonly user: Extract<Actor, { kind: 'user' }>;
  readonly administrator: Extract<Actor, { kind: 'administrator' }>;
  readonly either: Actor;
}

/** Services that every entry point uses. */
export interface Backend {
  readonly platform: BuiltInPlatform;
  readonly version: Version;
  readonly audit: Pick<AuditLog, 'add' | 'flush'>;
  /** The audit logs by what they record. */
  readonly audits: Readonly<Record<AuditKind, Pick<AuditLog, 'list'>>>;
}

/** A call, over HTTP or from the same process. */
export interface ApiRequest {
  /** The text in the path for each parameter in braces. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, string>>;
  /** Throws a {@link Fault} for a caller without a valid login. */
  readonly identify: () => Promise<Actor>;
  readonly readBody: () => Promise<unknown>;
  /** Address of the caller if the call came over the network. */
  readonly client?: string;
}

interface Definition<
  Path extends string,
  A extends Access,
  P extends ParamSchemas,
  Q extends z.ZodObject,
  B extends z.ZodType,
> extends Declaration<Path, P, Q, B> {
  readonly access: A;
  /** The role that an administrator must have. Default: any. */
  readonly role?: AdministratorRole;
  /** The scope that the access token of a user must have. Default: none. */
  readonly scope?: TokenScope;
  /** Returns the body of the response, or nothing for a response without a body. */
  run(
    call: {
      readonly actor: Actors[A];
      readonly params: ParamsOf<Path, P>;
      readonly query: z.output<Q>;
      readonly body: z.output<B>;
      /** Records the effect of the call in the audit log. */
      readonly note: (action: string, target: string) => void;
    },
    backend: Backend,
  ): object | undefined | Promise<object | undefined>;
}

export interface EntryPoint extends Declaration {
  /** Throws a {@link Fault}: 401 or 403 for callers without the right, 400 for an invalid query or body, and others. */
  call(request: ApiRequest, backend: Backend): Promise<object | undefined>;
}

export function entryPoint<
  const Path extends string,
  A extends Access,
  // biome-ignore lint/complexity/noBannedTypes: a path without typed parameters
  P extends ParamSchemas = {},
  Q extends z.ZodObject = z.ZodObject<Record<never, never>>,
  B extends z.ZodType = z.ZodUndefined,
>(definition: Definition<Path, A, P, Q, B>): EntryPoint {
  const { run, role: _role, scope: _scope, ...declaration } = definition;
  return {
    ...declaration,

    async call({ params, query, identify, readBody, client }, backend) {
      const actor = await admitted(definition, identify);
      const bodySchema = definition.body?.schema;
      const call = {
        actor: actor as Actors[A],
        params: parseParams(declaration, params) as ParamsOf<Path, P>,
        query: parseQuery(declaration, query) as z.output<Q>,
        body: (bodySchema ? parseBody(bodySchema, await readBody()) : undefined) as z.output<B>,
        note: (action: string, target: string) =>
          backend.audit.add({ actor: nameOf(actor), client, action, target }),
      };
      return run(call, backend);
    },
  };
}

/** Returns the caller as the audit log names them. */
export function nameOf(actor: Actor | undefined): string {
  if (!actor) return 'anybody';
  return actor.kind === 'user' ? `user ${actor.user.email}` : actor.name;
}

async function admitted(
  {
    access,
    role,
    scope,
  }: Pick<
    Definition<string, Access, ParamSchemas, z.ZodObject, z.ZodType>,
    'access' | 'role' | 'scope'
  >,
  identify: () => Promise<Actor>,
): Promise<Actor | undefined> {
  if (access === 'anybody') return undefined;
  const actor = await identify();
  if (access === 'either' || access === actor.kind) {
    if (actor.kind === 'user' && scope) requireScope(actor.rights, scope);
    if (actor.kind === 'administrator' && role) requireRole(actor.roles, role);
    return actor;
  }
  throw new Fault(
    'denied',
    access === 'user'
      ? 'This call requires the access token of a user: send it as Authorization: Bearer <token>'
      : "This call requires the name and password of an administrator's account (HTTP basic)",
    { phase: 'credentials' },
  );
}
