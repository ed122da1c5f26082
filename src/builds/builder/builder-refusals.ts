import { Fault } from '../../foundation/fault.ts';
import type { TrustDomain } from '../domain.ts';
import { wipeLabel } from './separation.ts';

/** The builder went away, or no builder answers. Another builder or another attempt may succeed. */
export class BuilderLost extends Fault {
  /** True if the builder went away during the build. The build may be the cause. */
  readonly hadBegun: boolean;

  constructor(message: string, hadBegun: boolean, cause?: unknown) {
    super('unavailable', message, { phase: 'build', cause });
    this.hadBegun = hadBegun;
  }
}

const howToGetOne =
  "ask its operator to start one ('docker compose -f builder/compose.yaml up -d' in the folder of Sluice, or 'npm run buildkit' on Debian) or to name one with SLUICE_BUILDKIT";

/** Returns the refusal of all builds: there is no builder, or none that answers. */
export function noBuilder(troubles: readonly string[]): Fault {
  const message =
    troubles.length === 0
      ? `This server has no builder: ${howToGetOne}`
      : `This server cannot use the builder that it found: ${troubles.join('; ')}. Ask its operator, whose log has the address`;
  return new Fault('not-provided', message, { phase: 'build' });
}

/** Build steps can connect to everything that their builder can connect to. */
export function closedToAnonymous(): Fault {
  const message =
    "This server builds only for callers with a login, because build steps on its builder can reach the server's network: send an access token (`towerAccessToken`; for the command line, SLUICE_TOKEN) or log in with an account. Its operator can open a builder to everybody (SLUICE_BUILDS_OPEN_BUILDERS), or install the packages that give the builder its own network: the log lists them";
  return new Fault('unauthorized', message, { phase: 'build' });
}

/** Returns the refusal of all builds where the only builder cannot push. */
export function classicStore(): Fault {
  const message = `The only builder of this server is in a Docker engine with the classic image store, which cannot push what it builds: ask its operator to switch on the containerd image store (Docker 23 or newer: "features": {"containerd-snapshotter": true} in /etc/docker/daemon.json), or ${howToGetOne}`;
  return new Fault('not-provided', message, { phase: 'build' });
}

/** Returns the refusal of a build for which no builder is apart from those of others. */
export function notApart({ isAlone }: TrustDomain): Fault {
  const who = isAlone
    ? 'builds with secrets, SSH keys or proxy arguments'
    : 'builds of callers without a login';
  return new Fault(
    isAlone ? 'not-provided' : 'unauthorized',
    `This server does not run ${who}: other callers use the same builder, and would share its cache with them. ${
      isAlone
        ? 'Build without them'
        : 'Send an access token (`towerAccessToken`; for the command line, SLUICE_TOKEN) or log in with an account'
    }, or ask its operator to give Sluice a builder of its own (the worker label ${wipeLabel} in docs/configuration.md)`,
    { phase: 'build' },
  );
}
