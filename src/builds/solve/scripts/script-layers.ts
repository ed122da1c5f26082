import { createHash } from 'node:crypto';
import type { KeptSteps, LayeredPackage } from '../../../conda/index.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import type { InjectedLayer } from '../../../images/augment/index.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import { domainOfCaller, type LabelOf, type TrustDomain } from '../../domain.ts';
import type { StepCount } from '../../logs/run-step.ts';
import {
  createOfferEnvironment,
  type EnvironmentBase,
  type EnvironmentImageDeps,
} from '../bases/environment-image.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import type { RunScripts } from './run-scripts.ts';
import { scriptProgram, scriptRecipeVersion } from './script-recipe.ts';

/** An environment with packages whose link scripts have not run. */
export interface UnlinkedEnvironment extends EnvironmentBase {
  /** All layers of its packages, the lowest one first. */
  readonly layers: readonly InjectedLayer[];
  /** The packages with link scripts, in the order in which these run. */
  readonly scripted: readonly LayeredPackage[];
}

/** Returns the layer with what the link scripts change; undefined where they change nothing. Throws a `Fault`. */
export type LinkPackages = (environment: UnlinkedEnvironment) => Promise<InjectedLayer | undefined>;

/** Whose environment it is: only callers of one trust domain share layers. */
type ScriptOwner = Pick<BuildRun, 'owner' | 'isTrusted'> & {
  readonly rights: Pick<BuildRights, 'limits'>;
};

/** The build that an environment is for. */
export type ScriptCaller = ScriptOwner &
  Pick<BuildRun, 'log' | 'signal'> & {
    readonly rights: Pick<BuildRights, 'forBuilder'>;
    readonly count: StepCount;
    /** Called before a builder is asked for. Throws where none may be used. */
    readonly beforeBuilder: (reasons: readonly string[], domain: TrustDomain) => Promise<void>;
  };

/** Runs link scripts by a builder, or returns the layer of the same run before. */
export interface ScriptLayers {
  link(caller: ScriptCaller): LinkPackages;
  /** Returns whether the link scripts of an environment have run before. */
  isKept(owner: ScriptOwner, environment: UnlinkedEnvironment): Promise<boolean>;
}

export interface ScriptLayersDeps extends EnvironmentImageDeps {
  readonly keptSteps: KeptSteps;
  readonly runScripts: RunScripts;
  readonly labelOf: LabelOf;
}

export function createScriptLayers(deps: ScriptLayersDeps): ScriptLayers {
  const { keptSteps } = deps;
  const turns = new Semaphore({ perKey: 1 });
  const offerEnvironment = createOfferEnvironment(deps);
  const domainOf = ({ rights, ...owner }: ScriptOwner) =>
    domainOfCaller({ ...owner, limits: rights.limits });

  const keyIn = (owner: ScriptOwner, environment: UnlinkedEnvironment) => {
    const { platform, base, layers, scripted } = environment;
    const subject = [
      ...['link scripts', scriptRecipeVersion, deps.labelOf(domainOf(owner).name)],
      ...[formatPlatform(platform), base.digest, scriptProgram(scripted)],
      // A lock file may state other digests of the same archives.
      layers.map(({ tarDigest }) => tarDigest),
    ];
    return createHash('sha256').update(JSON.stringify(subject)).digest('hex');
  };

  return {
    isKept: async (owner, environment) =>
      (await keptSteps.find(keyIn(owner, environment))) !== undefined,

    link: caller => async environment => {
      const { log, count, signal, rights } = caller;
      const key = keyIn(caller, environment);
      const domain = domainOf(caller);
      const run = async () => {
        const kept = await keptSteps.find(key);
        if (kept) return kept;
        await caller.beforeBuilder(environment.scripted.map(scriptReason), domain);
        using image = await offerEnvironment(environment, environment.layers, signal);
        const names = environment.scripted.map(({ package: { name } }) => name).join(', ');
        log.write(`\nThe link scripts of ${names} run in a builder (${key.slice(0, 12)})\n`);
        const made = await deps.runScripts({
          environment: image.name,
          root: image.root,
          platform: formatPlatform(environment.platform),
          program: scriptProgram(environment.scripted),
          access: rights.forBuilder(undefined),
          domain,
          log,
          count,
          signal,
        });
        return keptSteps.keep(key, made);
      };
      // Images that begin together share a run: the second one finds its layer.
      const { layer, isEmpty } = await turns.run(run, { key, signal });
      return isEmpty ? undefined : { ...layer, holds: 'conda: changes of link scripts' };
    },
  };
}

/** Returns what requires a builder. */
export function scriptReason({ package: { name } }: LayeredPackage): string {
  return `the link script of ${name}`;
}
