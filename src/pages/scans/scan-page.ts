import { z } from 'zod';
import type { ScanRoutesDeps } from '../../http/api/index.ts';
import { requireScans } from '../../http/api/index.ts';
import {
  countAll,
  type FindingsPage,
  type FindingsQuery,
  findingOrders,
  type Scan,
  severities,
  type Vulnerability,
} from '../../scans/index.ts';
import {
  countText,
  foldedText,
  type Html,
  html,
  safeAddress,
  shortDigest,
  timeElement,
  visibleText,
} from '../frame/html.ts';
import { orAbsent, pagingLinks, sortHead } from '../frame/list-controls.ts';
import type { Page } from '../frame/page-layout.ts';
import { pageRoute } from '../frame/page-route.ts';

export type ScanPageDeps = ScanRoutesDeps;

const scanQuery = z.object({
  severity: orAbsent(z.enum(severities)),
  name: orAbsent(z.string().max(200)),
  fixed: orAbsent(z.enum(['yes'])),
  sort: orAbsent(z.enum(findingOrders)),
  page: orAbsent(z.coerce.number().int().min(1).max(1000)),
});

/** The page of a scan. Everyone who knows the id of a scan may see it, as in the JSON API. */
export const scanPage = pageRoute({
  method: 'get',
  path: '/view/scans/{scanId}',
  access: 'anybody',
  query: scanQuery,
  async run({ params, query }, deps: ScanPageDeps) {
    const scans = requireScans(deps.scans);
    const { fixed, name, ...rest } = query;
    const shown = { ...rest, name: name?.trim() || undefined, isFixed: fixed === 'yes' };
    const scan = await scans.get(params.scanId);
    return pageOf({ scan, query: shown, found: await scans.findings(scan, shown) });
  },
});

interface ScanView {
  readonly scan: Scan;
  readonly query: FindingsQuery;
  readonly found: FindingsPage;
}

const readText = {
  layers: 'All layers',
  bill: 'The bill of materials of the packages, and the layers that it does not describe',
} as const;

// All texts of a scan come from the scanner and its database.
function pageOf(view: ScanView): Page {
  const { id, image, createdAt, finishedAt, succeeded, reason, report } = view.scan;
  const base = `/v1alpha1/scans/${encodeURIComponent(id)}`;
  const state = succeeded === null ? 'Running' : succeeded ? 'Finished' : 'Failed';
  return {
    title: `Scan ${visibleText(id, 60)}`,
    ...(finishedAt === null ? { refreshSeconds: 5 } : {}),
    content: html`<h1>Security scan</h1>
<dl class="facts">
<dt>Image</dt><dd>${foldedText(image)}</dd>
<dt>State</dt><dd>${state}</dd>
${reason !== null && html`<dt>Reason</dt><dd>${foldedText(reason)}</dd>`}
<dt>Requested</dt><dd>${timeElement(createdAt)}</dd>
${report && html`<dt>Scanner</dt><dd>${visibleText(report.scanner, 100)}</dd>`}
${report?.scanned && html`<dt>Read</dt><dd>${readText[report.scanned]}</dd>`}
${report?.packages !== undefined && html`<dt>Packages</dt><dd>${countText(report.packages)}</dd>`}
</dl>
<p><a href="${base}/logs">Log</a>${
      report && html` · <a href="${base}/sarif" download="scan.sarif">Vulnerabilities (SARIF)</a>`
    }${
      report?.packages !== undefined &&
      html` · <a href="${base}/spdx" download="bom.spdx.json">Bill of materials (SPDX)</a>`
    }</p>
${report && findingsPart(view, report)}`,
  };
}

function findingsPart(view: ScanView, { counts }: NonNullable<Scan['report']>): Html {
  const all = countAll(counts);
  if (all === 0) {
    return html`<h2 id="found">Vulnerabilities</h2>
<p>The scanner knows of none in this image.</p>`;
  }
  const { rows, count } = view.found;
  return html`<h2 id="found">Vulnerabilities</h2>
${severityLinks(view, counts)}
${searchForm(view)}
${isNarrowed(view.query) && html`<p>${countText(count)} found. <a href="${addressOf(view)}#found">Show all</a></p>`}
${
  rows.length === 0
    ? html`<p class="empty">None of them matches.</p>`
    : html`<div class="wide" tabindex="0" role="region" aria-label="Vulnerabilities"><table>
<thead><tr>${orderHead(view, 'severity', 'Severity')}${orderHead(view, 'vulnerability', 'Vulnerability')}${orderHead(view, 'package', 'Package')}<th scope="col">Installed</th><th scope="col">Fixed</th><th scope="col">Layer</th></tr></thead>
<tbody>${rows.map(rowOf)}</tbody>
</table></div>`
}
${pagingLinks(view.found, page => `${addressOf(view, { ...view.query, page })}#found`)}
${!isNarrowed(view.query) && count < all && html`<p class="minor">${countText(all - count)} less severe ones are not listed.</p>`}`;
}

function isNarrowed({ severity, name, isFixed }: FindingsQuery): boolean {
  return severity !== undefined || name !== undefined || isFixed === true;
}

/** Returns the address of a list. Leaves out what is usual. */
function addressOf({ scan }: ScanView, query: FindingsQuery = {}): string {
  const { severity, name, isFixed, sort, page } = query;
  const members = {
    severity,
    name,
    fixed: isFixed ? 'yes' : undefined,
    sort: sort === 'severity' ? undefined : sort,
    page: page && page > 1 ? String(page) : undefined,
  };
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(members)) if (value) search.set(key, value);
  const path = `/view/scans/${encodeURIComponent(scan.id)}`;
  return search.size === 0 ? path : `${path}?${search}`;
}

function severityLinks(view: ScanView, counts: NonNullable<Scan['report']>['counts']): Html {
  const { query } = view;
  const link = (severity: FindingsQuery['severity'], text: string) =>
    html`<a href="${addressOf(view, { ...query, severity, page: 1 })}#found"${query.severity === severity && html` aria-current="true"`}>${text}</a>`;
  const links = severities.flatMap(severity => {
    const count = counts[severity];
    return count ? [link(severity, `${countText(count)} ${severity}`)] : [];
  });
  return html`<nav aria-label="Severities" class="choices">${link(undefined, `All ${countText(countAll(counts))}`)}${links}</nav>`;
}

function searchForm({ scan, query }: ScanView): Html {
  const { severity, name, isFixed, sort } = query;
  const hidden = { severity, sort };
  return html`<form method="get" action="/view/scans/${encodeURIComponent(scan.id)}#found" class="filters" role="search">
${Object.entries(hidden).map(([key, value]) => value && html`<input type="hidden" name="${key}" value="${value}">`)}
<div><label for="name">Package or vulnerability contains</label><input id="name" name="name" value="${name ?? ''}" maxlength="200" spellcheck="false" autocapitalize="off" autocomplete="off"></div>
<div><label for="fixed">Fixed version</label><select id="fixed" name="fixed"><option value="">known or not</option><option value="yes"${isFixed && html` selected`}>known</option></select></div>
<button>Search</button></form>`;
}

function orderHead(view: ScanView, sort: NonNullable<FindingsQuery['sort']>, text: string): Html {
  const { query } = view;
  return sortHead({
    text,
    address: `${addressOf(view, { ...query, sort, page: 1 })}#found`,
    isSorted: (query.sort ?? 'severity') === sort,
    // The most severe ones come first, and names in their order.
    order: sort === 'severity' ? 'descending' : 'ascending',
  });
}

function rowOf(found: Vulnerability): Html {
  const { id, severity, title, pkgName, installedVersion, fixedVersion, primaryUrl, layer } = found;
  const address = primaryUrl === undefined ? undefined : safeAddress(primaryUrl);
  const name = visibleText(id, 100);
  return html`<tr><td>${severity}</td><td>${
    address ? html`<a href="${address}" rel="noreferrer nofollow">${name}</a>` : name
  }<div class="minor">${visibleText(title, 300)}</div></td><td>${visibleText(pkgName, 200)}</td><td>${visibleText(installedVersion, 100)}</td><td>${visibleText(fixedVersion ?? '', 100)}</td><td>${
    layer && html`<code>${visibleText(shortDigest(layer), 60)}</code>`
  }</td></tr>`;
}
