import type { ParameterizedContext } from 'koa';
import { orderedChannels, readChannel } from '../../builds/plan/index.ts';
import type { PackageSearch } from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { containerRequestSchema } from '../../http/api/container/container-schema.ts';
import {
  type AcceptRequestDeps,
  type ApiBasis,
  acceptRequest,
  checkScanMode,
  runWithinLimit,
  type ScanRules,
} from '../../http/api/index.ts';
import {
  clientSignal,
  faultOf,
  type Limiter,
  type RequestState,
  rateFor,
} from '../../http/index.ts';
import { parseBody } from '../../http/route/index.ts';
import { type ProjectSearch, projectIn } from '../../pypi/index.ts';
import {
  type Accepted,
  type Caller,
  type DryRun,
  isToBeMade,
  type Submission,
} from '../../request/index.ts';
import { type AskForm, channelsIn, type FormProblem, isEmptyForm, problemOf } from './ask-form.ts';
import type { Found, PlanView } from './ask-results.ts';

export interface AskDeps
  extends AcceptRequestDeps,
    Pick<ApiBasis, 'gate' | 'limiter' | 'rates'>,
    Pick<ScanRules, 'scanPolicy' | 'freezesAll'> {
  readonly dryRun: DryRun;
  readonly packageSearch: PackageSearch;
  readonly projectSearch: ProjectSearch;
  /** Counts dry runs and searches of people who fill in the form, apart from requests. */
  readonly previewLimiter: Limiter;
}

/** The person who fills in the form, and their connection. */
export interface Asking {
  readonly ctx: ParameterizedContext<RequestState>;
  readonly caller: Caller;
}

/**
 * Dry runs and searches that a caller may have for each request of their rate: each pause in typing has one. They have
 * their own count, so that they cannot use up the right to ask.
 */
const previewsPerRequest = 10;
const shortestSearch = 2;

/** Returns what the request of a form would do, or why it cannot be made. */
export async function planOf(form: AskForm, asking: Asking, deps: AskDeps): Promise<PlanView> {
  if (isEmptyForm(form)) return { kind: 'empty' };
  try {
    const { submission } = checkScanMode(submissionOf(form), deps, asking.caller.user);
    admit(submission, asking.caller, deps);
    const forecast = await preview(asking, deps, signal =>
      deps.dryRun(submission, 'v1alpha2', asking.caller, signal),
    );
    const obstacle = forecast.obstacle && problemOf(forecast.obstacle, form).text;
    return { kind: 'forecast', forecast, obstacle };
  } catch (error) {
    return { kind: 'problem', problem: problemIn(error, form) };
  }
}

/** Makes the request of a form, as the JSON API does. Throws a `Fault`. */
export async function askFor(form: AskForm, { ctx, caller }: Asking, deps: AskDeps) {
  const { submission, warnings } = checkScanMode(submissionOf(form), deps, caller.user);
  admit(submission, caller, deps);
  return runWithinLimit(
    deps.limiter,
    rateFor(deps.rates, caller, caller.address),
    headers => ctx.set(headers),
    async (left): Promise<Accepted> => {
      const asked = { ctx, body: submission, caller, left };
      const accepted = await acceptRequest(asked, 'v1alpha2', deps);
      return { ...accepted, warnings: [...warnings, ...accepted.warnings] };
    },
  );
}

/**
 * Returns the packages that the search in a form finds, or the versions of one package. A search for nothing begins to
 * fetch the data of the channels.
 */
export async function foundFor(form: AskForm, asking: Asking, deps: AskDeps): Promise<Found> {
  const text = form.search.trim();
  const name = form.versionsOf.trim();
  if (form.by !== 'packages') return { kind: 'nothing' };
  try {
    deps.gate.beforeRequest();
    deps.gate.request(asking.caller);
    const written = channelsIn(form).map(channel => readChannel('packages.channels', channel));
    const channels = orderedChannels(written);
    return await preview(asking, deps, async (signal): Promise<Found> => {
      const { packageSearch, projectSearch } = deps;
      const project = projectIn(name);
      if (project !== undefined) {
        const result = await projectSearch.find(project, signal);
        return { kind: 'projectVersions', name: project, result };
      }
      if (name === '' && text.length < shortestSearch) {
        packageSearch.prepare(channels);
        return { kind: 'nothing' };
      }
      if (name !== '') {
        const result = await packageSearch.versions(name, channels, signal);
        return { kind: 'versions', name, result };
      }
      const [result, python] = await Promise.all([
        packageSearch.search(text, channels, signal),
        projectSearch.find(projectIn(text) ?? text, signal),
      ]);
      return { kind: 'packages', text, result, python };
    });
  } catch (error) {
    return { kind: 'problem', text: problemIn(error, form).text };
  }
}

/** Returns why this caller cannot ask in this way; undefined if they can. */
export function barrierFor(form: AskForm, caller: Caller, { gate }: AskDeps) {
  try {
    gate.beforeRequest();
    gate.request(caller);
    if (form.by !== 'image') gate.build(caller);
    return undefined;
  } catch (error) {
    return problemIn(error, form);
  }
}

/** Returns a failure in words. Throws unexpected errors again: they belong into the log. */
export function problemIn(error: unknown, form: AskForm): FormProblem {
  const fault = faultOf(error, '');
  if (fault.kind === 'internal') throw error;
  return problemOf(fault, form);
}

function admit(submission: Submission, caller: Caller, { gate }: AskDeps): void {
  gate.beforeRequest();
  gate.request(caller);
  if (isToBeMade(submission)) gate.build(caller);
  gate.serve(submission, caller);
}

function preview<T>(
  { ctx, caller }: Asking,
  { previewLimiter, rates }: AskDeps,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = rateFor(rates, caller, caller.address);
  const wide = limit && {
    ...limit,
    rate: { ...limit.rate, count: limit.rate.count * previewsPerRequest },
  };
  const setHeaders = (headers: Record<string, string>) => ctx.set(headers);
  return runWithinLimit(previewLimiter, wide, setHeaders, () => work(clientSignal(ctx.res)));
}

/** Returns the container request of a form, checked as a body of the JSON API. Throws a `Fault` (400). */
function submissionOf(form: AskForm): Submission {
  return parseBody(containerRequestSchema, {
    ...what(form),
    ...changes(form),
    ...(form.platforms.length > 0 ? { containerPlatform: form.platforms.join(',') } : {}),
    // A Singularity image is always pushed to a repository.
    ...(form.isKept || form.isSingularity ? { freeze: true, defaultRepository: true } : {}),
    ...(form.isSingularity ? { format: 'sif' } : {}),
    ...textAs('buildRepository', form.repository),
  });
}

function what(form: AskForm): object {
  switch (form.by) {
    case 'image':
      return { containerImage: form.image.trim() };
    case 'dockerfile':
      return { containerFile: Buffer.from(form.dockerfile).toString('base64') };
    case 'file':
      return { packages: packagesIn(form) };
    case 'packages': {
      const channels = channelsIn(form);
      return {
        packages: {
          type: 'CONDA',
          entries: form.packages,
          ...(channels.length > 0 ? { channels } : {}),
          condaOpts: textAs('baseImage', form.base),
        },
      };
    }
  }
}

/** Returns the packages of a file: a lock file of renv has packages of R, all others have those of Conda and PyPI. */
function packagesIn(form: AskForm): object {
  const { environment, base } = form;
  const channels = channelsIn(form);
  const isOfR = environment.includes('"Packages"') && environment.includes('"R"');
  return {
    type: isOfR ? 'CRAN' : 'CONDA',
    environment: Buffer.from(environment).toString('base64'),
    channels,
    ...(isOfR ? { cranOpts: textAs('rImage', base) } : { condaOpts: textAs('baseImage', base) }),
  };
}

function changes({ env, entrypoint, workdir }: AskForm): object {
  const variables = env.split('\n').filter(line => line.trim() !== '');
  const words = entrypointWords('containerConfig.entrypoint', entrypoint);
  const config = {
    ...(variables.length > 0 ? { env: variables } : {}),
    ...(words.length > 0 ? { entrypoint: words } : {}),
    ...textAs('workingDir', workdir),
  };
  return Object.keys(config).length > 0 ? { containerConfig: config } : {};
}

function textAs(name: string, text: string): Readonly<Record<string, string>> {
  return text.trim() === '' ? {} : { [name]: text.trim() };
}

/**
 * Splits a command into words as a shell does, without replacing anything in it: words end at blanks, quotes and
 * backslashes keep them together. Throws a `Fault` for an open quote.
 */
function entrypointWords(field: string, text: string): readonly string[] {
  const words: string[] = [];
  let word: string | undefined;
  let quote = '';
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at);
    if (character === '\\' && quote !== "'" && at + 1 < text.length) {
      at += 1;
      word = (word ?? '') + text.charAt(at);
    } else if (quote !== '') {
      if (character === quote) quote = '';
      else word += character;
    } else if (character === "'" || character === '"') {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? '') + character;
    }
  }
  if (quote !== '') {
    throw new Fault('bad-request', `'${field}' has an open quote: close it with ${quote}`, {
      phase: 'request',
    });
  }
  return word === undefined ? words : [...words, word];
}
