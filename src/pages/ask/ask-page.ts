import { z } from 'zod';
import { maxRecipeBase64 } from '../../builds/plan/index.ts';
import { queryOf } from '../../http/index.ts';
import { supportedPlatforms } from '../../oci/naming.ts';
import { readFormBody } from '../frame/form-body.ts';
import { type Html, html } from '../frame/html.ts';
import type { Page } from '../frame/page-layout.ts';
import { type PageResponse, pageRoute } from '../frame/page-route.ts';
import {
  type AskForm,
  addressOf,
  type FormField,
  type FormProblem,
  hasSearch,
  isEmptyForm,
  isExactPackage,
  labels,
  type RequestKind,
  readForm,
  requestKinds,
  withoutPackage,
  withPackage,
} from './ask-form.ts';
import {
  type AskDeps,
  type Asking,
  askFor,
  barrierFor,
  foundFor,
  planOf,
  problemIn,
} from './ask-responses.ts';
import {
  chosenPieces,
  type Found,
  foundPieces,
  isSearchLate,
  type PlanView,
  planPieces,
  problemLine,
} from './ask-results.ts';

/** The first page: what this server is, and its form to ask for a container. */
export const askRoutes = [
  pageRoute({
    method: 'get',
    path: '/',
    access: 'anybody',
    query: z.object({ plan: z.string().optional() }),
    async run({ ctx, query, viewer: { caller } }, deps: AskDeps) {
      const asking = { ctx, caller };
      const form = readForm(queryOf(ctx.req));
      const wantsPlan = query.plan !== undefined;
      const plan = wantsPlan ? await planOf(form, asking, deps) : undefined;
      return askPage({ ...(await viewOf(form, asking, deps, plan)), isAddressed: true });
    },
  }),
  pageRoute({
    method: 'post',
    path: '/',
    access: 'anybody',
    async run({ ctx, viewer: { caller } }, deps: AskDeps): Promise<PageResponse> {
      const asking = { ctx, caller };
      const given = await readFormBody(ctx.req);
      const form = changed(readForm(given), given);
      if (given.get('do') !== 'ask') {
        const address = addressOf(form, given.get('do') === 'plan' ? { plan: '1' } : {});
        if (address !== undefined) return { location: address };
        return show(form, asking, deps, await planOf(form, asking, deps));
      }
      const whole = withSearchedPackage(form);
      try {
        const { request } = await askFor(whole, asking, deps);
        return { location: `/view/containers/${request.token}` };
      } catch (error) {
        return show(whole, asking, deps, { kind: 'problem', problem: problemIn(error, whole) });
      }
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/ask/plan',
    access: 'anybody',
    async run({ ctx, viewer: { caller } }, deps: AskDeps) {
      const form = readForm(await readFormBody(ctx.req));
      return { piece: planPieces(await planOf(form, { ctx, caller }, deps)) };
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/ask/found',
    access: 'anybody',
    async run({ ctx, viewer: { caller } }, deps: AskDeps) {
      const form = readForm(await readFormBody(ctx.req));
      return { piece: foundPieces(await foundFor(form, { ctx, caller }, deps)) };
    },
  }),
  pageRoute({
    method: 'post',
    path: '/view/ask/chosen',
    access: 'anybody',
    async run({ ctx }) {
      const given = await readFormBody(ctx.req);
      return { piece: chosenPieces(changed(readForm(given), given).packages) };
    },
  }),
];

/** Returns the form after the button that was pressed. */
function changed(form: AskForm, given: URLSearchParams): AskForm {
  const added = given.get('add');
  const removed = given.get('remove');
  if (added !== null && added.trim() !== '') return withPackage(form, added);
  if (removed !== null) return withoutPackage(form, removed);
  const isSearch = given.get('do') === 'search';
  if (isSearch && isExactPackage(form.search)) return withPackage(form, form.search);
  return form;
}

/** Returns the form with the text of the search as its package, if nothing else was chosen: people forget to add it. */
function withSearchedPackage(form: AskForm): AskForm {
  const isForgotten = form.by === 'packages' && isEmptyForm(form) && form.search.trim() !== '';
  return isForgotten ? withPackage(form, form.search) : form;
}

async function show(form: AskForm, asking: Asking, deps: AskDeps, plan: PlanView) {
  return askPage(await viewOf(form, asking, deps, plan));
}

async function viewOf(
  form: AskForm,
  asking: Asking,
  deps: AskDeps,
  plan: PlanView | undefined,
): Promise<AskView> {
  return {
    form,
    isAddressed: false,
    plan: plan ?? (isEmptyForm(form) ? { kind: 'empty' } : { kind: 'waiting' }),
    found: hasSearch(form) ? await foundFor(form, asking, deps) : { kind: 'nothing' },
    barrier: barrierFor(form, asking.caller, deps),
  };
}

/** The first page, as it is shown. */
interface AskView {
  readonly form: AskForm;
  readonly plan: PlanView;
  readonly found: Found;
  /** True if the address of the page holds the form, so that the page can be loaded again. */
  readonly isAddressed: boolean;
  /** Why this viewer cannot ask for anything; undefined if they can. */
  readonly barrier: FormProblem | undefined;
}

const untilFoundSeconds = 2;
/** What the API accepts. */
const mostFileBytes = Math.floor(maxRecipeBase64 / 4) * 3 - 2;

const kindNames: Readonly<Record<RequestKind, string>> = {
  packages: 'Packages',
  file: 'A file',
  image: 'An image',
  dockerfile: 'A Dockerfile',
};

/** Returns the first page: what this server is, and the form to ask for a container. */
function askPage(view: AskView): Page {
  const { form, plan, found, barrier } = view;
  const problem = plan.kind === 'problem' ? plan.problem : undefined;
  return {
    title: 'Ask for a container',
    scripts: ['ask', 'ask-file'],
    ...(problem ? { status: problem.status } : {}),
    ...(view.isAddressed && isSearchLate(found) ? { refreshSeconds: untilFoundSeconds } : {}),
    content: html`<h1>Containers on request</h1>
<p class="lead">Say what you need: packages, a file that lists them, an image with changes, or a Dockerfile. This server answers with the name of a container image, which any client can pull.</p>
${barrier && problemLine(barrier)}
<nav class="tabs" aria-label="What to ask with">${requestKinds.map(
      kind =>
        html`<a href="${tabAddress(form, kind)}"${kind === form.by && html` aria-current="page"`}>${kindNames[kind]}</a>`,
    )}</nav>
<form id="ask" class="ask" method="post" action="/" autocomplete="off" data-most="${mostFileBytes}">
<input type="hidden" name="by" value="${form.by}">
<div class="ask-fields">
<div id="file-problem" role="status"></div>
${kindFields(view, problem)}
${resultFields(form, problem)}
${moreFields(form, problem)}
</div>
<section class="ask-plan" aria-labelledby="plan-title">
<h2 id="plan-title">What you get</h2>
<div id="plan" aria-live="polite">${problem?.field === undefined ? planPieces(plan) : html`<p class="minor">Not checked yet.</p>`}</div>
<div class="actions">
<button name="do" value="ask">Get the container</button>
<noscript><button class="quiet" name="do" value="plan">Show what it would do</button></noscript>
</div>
${shareLine(form)}
</section>
</form>`,
  };
}

function tabAddress(form: AskForm, by: RequestKind): string {
  return addressOf({ ...form, by, search: '', versionsOf: '' }) ?? `/?by=${by}`;
}

function shareLine(form: AskForm): Html {
  const isLong = addressOf(form) === undefined;
  return html`<p class="minor" id="share-short"${isLong && html` hidden`}>The address of this page holds the whole form: send it to a colleague.</p>
<p class="minor" id="share-long"${!isLong && html` hidden`}>The form is too long for an address, so the address of this page does not hold it: send the text itself to a colleague.</p>`;
}

function kindFields({ form, found }: AskView, problem: FormProblem | undefined): Html {
  switch (form.by) {
    case 'packages':
      return html`<label for="q">${labels.package}</label>
<p class="hint" id="q-hint">Search Conda packages by name, or write one with its version, such as <code>samtools=1.20</code>. The arrow keys go through what is found.</p>
<div class="search"><input id="q" name="q" value="${form.search}" type="search" placeholder="samtools" aria-describedby="q-hint package-problem" aria-controls="found" spellcheck="false" autocapitalize="none"${isEmptyForm(form) && html` autofocus`}>
<button class="quiet" name="do" value="search">Search</button></div>
${problemPlace('package', problem)}
<div id="found" aria-live="polite">${foundPieces(found)}</div>
<div id="chosen">${chosenPieces(form.packages)}</div>`;
    case 'file':
      return html`${areaField('environment', form.environment, problem, {
        hint: html`Paste the text of an <code>environment.yml</code>, <code>requirements.txt</code>, <code>pyproject.toml</code>, or of a lock file such as <code>pixi.lock</code>, <code>conda-lock.yml</code>, <code>uv.lock</code> or <code>renv.lock</code>.`,
        placeholder: 'channels:\n  - conda-forge\n  - bioconda\ndependencies:\n  - samtools=1.20',
        rows: 12,
      })}
${filePart('environment')}`;
    case 'image':
      return html`${textField('image', form.image, problem, html`Its name, such as <code>ubuntu:24.04</code> or <code>ghcr.io/team/app@sha256:…</code>`)}
${changeFields(form, problem)}`;
    case 'dockerfile':
      return html`${areaField('dockerfile', form.dockerfile, problem, {
        hint: html`Its text. Files of a build context cannot be sent from here: use the command line for them. For a Singularity image it may be a definition file.`,
        placeholder: 'FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y curl',
        rows: 12,
      })}
${filePart('dockerfile')}`;
  }
}

/** Returns the choice of a file, which a script shows: it reads the file into a field. Files can be dropped on the page as well. */
function filePart(field: FormField): Html {
  return html`<div id="file-choice" hidden><label for="file">Or choose a file</label>
<p class="hint" id="file-hint">You can also drop it anywhere on this page. At most ${mostFileBytes / 1024} KiB of text.</p>
<input id="file" type="file" data-field="${field}" aria-describedby="file-hint file-problem"></div>`;
}

function resultFields(form: AskForm, problem: FormProblem | undefined): Html {
  const { isSingularity, isKept, platforms } = form;
  return html`<div class="ask-row">
<fieldset><legend>${labels.format}</legend>
<label><input type="radio" name="format" value="docker"${!isSingularity && html` checked`}> Docker image</label>
<label><input type="radio" name="format" value="sif"${isSingularity && html` checked`}> Singularity image</label>
<p class="hint">Apptainer runs both.</p>
</fieldset>
<fieldset><legend>${labels.platform}</legend>
${supportedPlatforms.map(
  one =>
    html`<label><input type="checkbox" name="platform" value="${one}"${platforms.includes(one) && html` checked`}> ${one}</label>`,
)}
<p class="hint">${form.by === 'image' ? 'Nothing checked: those of the image.' : 'Nothing checked: linux/amd64.'}</p>
${problemPlace('platform', problem)}
</fieldset>
<fieldset><legend>Life time</legend>
<label><input type="checkbox" name="freeze" value="yes"${isKept && html` checked`}> ${labels.freeze}</label>
<p class="hint">Pushed to a repository, under a name that does not expire. Singularity images always are.</p>
</fieldset>
</div>
<div class="ask-repository">${textField('repository', form.repository, problem, html`Where it is pushed, such as <code>registry.example.org/team/images</code>. Empty: a repository on this server, which is your own if you have logged in as a user.`)}</div>`;
}

function moreFields(form: AskForm, problem: FormProblem | undefined): Html {
  const { by, channels, base, env, entrypoint, workdir } = form;
  if (by === 'image') return html``;
  const mine: readonly (FormField | undefined)[] = [
    'channels',
    'base',
    'env',
    'entrypoint',
    'workdir',
  ];
  const isOpen =
    [channels, base, env, entrypoint, workdir].some(text => text.trim() !== '') ||
    (problem?.field !== undefined && mine.includes(problem.field));
  return html`<details${isOpen && html` open`}><summary>More options</summary>
${
  (by === 'packages' || by === 'file') &&
  html`${textField('channels', channels, problem, html`Names or addresses, the first has priority. Default: conda-forge, bioconda`)}
${textField('base', base, problem, html`The image that the packages are added to. Default: ubuntu:24.04`)}`
}
${changeFields(form, problem)}
</details>`;
}

function changeFields({ env, entrypoint, workdir }: AskForm, problem: FormProblem | undefined) {
  return html`${areaField('env', env, problem, { hint: html`One <code>NAME=value</code> a line`, placeholder: 'LANG=C.UTF-8', rows: 3 })}
${textField('entrypoint', entrypoint, problem, html`The command that the container runs, with quotes as in a shell. Empty: that of the image`)}
${textField('workdir', workdir, problem, html`Where it runs, such as <code>/data</code>. Empty: that of the image`)}`;
}

function textField(name: FormField, value: string, problem: FormProblem | undefined, hint: Html) {
  return html`<label for="${name}">${labels[name]}</label>
<p class="hint" id="${name}-hint">${hint}</p>
<input id="${name}" name="${name}" value="${value}" aria-describedby="${name}-hint ${name}-problem"${problem?.field === name && html` aria-invalid="true"`} spellcheck="false" autocapitalize="none">
${problemPlace(name, problem)}`;
}

function areaField(
  name: FormField,
  value: string,
  problem: FormProblem | undefined,
  { hint, placeholder, rows }: { hint: Html; placeholder: string; rows: number },
): Html {
  return html`<label for="${name}">${labels[name]}</label>
<p class="hint" id="${name}-hint">${hint}</p>
<textarea id="${name}" name="${name}" rows="${rows}" placeholder="${placeholder}" aria-describedby="${name}-hint ${name}-problem"${problem?.field === name && html` aria-invalid="true"`} spellcheck="false" autocapitalize="none">
${value}</textarea>
${problemPlace(name, problem)}`;
}

/** The place for what is wrong with a field. */
function problemPlace(name: FormField, problem: FormProblem | undefined): Html {
  return html`<div id="${name}-problem" class="field-problem">${problem?.field === name && problemLine(problem)}</div>`;
}
