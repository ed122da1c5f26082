import { Fault } from '../../foundation/fault.ts';
import { requireScope } from '../../platform/built-in/index.ts';
import type { Identity } from '../../platform/index.ts';

/** The callers with access: everybody (`open`), callers with a login (`login`), nobody (`off`). */
export type Openness = 'open' | 'login' | 'off';

/** What messages say where `access.pulls` is `off`. */
export const pullsAreOff =
  "this server has switched off pulls of served names (its setting 'access.pulls' is 'off')";

/** The callers that may use each service of this server. */
export interface AccessRules {
  /** Container requests, image metadata, checks of credentials. */
  readonly requests: Openness;
  /** Building, freezing and converting images. */
  readonly builds: Openness;
  /** Pulls of served names. */
  readonly pulls: Openness;
}

type GatedCaller = Pick<Partial<Identity>, 'user' | 'rights'>;

/**
 * Enforces the access rules of this server. All checks throw a {@link Fault}: 401 for a caller who must log in, 403 for
 * a service that the operator has disabled, whose setting the log names, and for an access token without the scope.
 */
export interface Gate {
  /** Called before the body of a request is read. */
  beforeRequest(): void;
  /** Called for a container request, an inspection or a check of credentials. */
  request(caller: GatedCaller): void;
  /** Called before an image is built, frozen or converted. */
  build(caller: GatedCaller): void;
  /**
   * Called for a container request. Refuses it if nobody could pull the name in its response, and where its image is frozen
   * instead and the caller may not have that.
   */
  serve(
    request: { readonly freeze?: boolean | undefined; readonly mirror?: boolean | undefined },
    caller: GatedCaller,
  ): void;
  /** Returns true if callers with a login, or without one, may build images. */
  mayBuild(hasLogin: boolean): boolean;
}

const kinds = {
  requests: {
    what: 'container requests, inspections and checks of credentials',
    setting: 'access.requests',
    scope: 'request',
  },
  builds: { what: 'builds and frozen images', setting: 'access.builds', scope: 'build' },
} as const;

/** @param isFrozenInstead true where requests for names that expire are frozen */
export function createGate(rules: AccessRules, isFrozenInstead = false): Gate {
  const enter = (kind: keyof typeof kinds, { user, rights }: GatedCaller) => {
    refuseIfOff(kind, rules[kind]);
    requireScope(rights, kinds[kind].scope);
    if (rules[kind] === 'open' || user !== undefined) return;
    const { what, setting } = kinds[kind];
    throw new Fault(
      'unauthorized',
      `This server requires a login for ${what}: send a platform access token ('platformAccessToken', SLUICE_TOKEN for the command line), or the name and password of an account (HTTP basic)`,
      {
        phase: 'credentials',
        headers: { 'www-authenticate': 'Basic realm="Sluice", charset="UTF-8"' },
        cause: new Error(`${setting} is 'login'`),
      },
    );
  };
  return {
    beforeRequest: () => refuseIfOff('requests', rules.requests),
    request: caller => enter('requests', caller),
    build: caller => enter('builds', caller),
    serve({ freeze, mirror }, caller) {
      if (freeze || mirror) return;
      if (isFrozenInstead) return enter('builds', caller);
      if (rules.pulls !== 'off') return;
      throw new Fault(
        'denied',
        `Nobody could pull the name that this request would get: ${pullsAreOff}. Set 'freeze: true' with a 'buildRepository', or use another server`,
        { phase: 'request' },
      );
    },
    mayBuild: hasLogin => rules.builds === 'open' || (rules.builds === 'login' && hasLogin),
  };
}

function refuseIfOff(kind: keyof typeof kinds, openness: Openness): void {
  if (openness !== 'off') return;
  const { what, setting } = kinds[kind];
  throw new Fault(
    'denied',
    `This server accepts no ${what}: its operator has disabled them. Use another server`,
    { phase: 'request', cause: new Error(`${setting} is 'off'`) },
  );
}
