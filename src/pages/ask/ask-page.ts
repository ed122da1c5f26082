import { z } from 'zod';
import { queryOf } from '../../http/index.ts';
import { readFormBody } from '../frame/form-body.ts';
import { type PageResponse, pageRoute } from '../frame/page-route.ts';
import {
  type AskForm,
  addressOf,
  hasSearch,
  isEmptyForm,
  isExactPackage,
  readForm,
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
import { type AskView, askPage } from './ask-template.ts';
import { chosenPieces, foundPieces } from './package-template.ts';
import { type PlanView, planPieces } from './plan-template.ts';

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
    async run({ ctx }, _: object) {
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
