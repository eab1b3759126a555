import { describe, expect, it, vi } from 'vitest';

import { openAtFirst, treeOf } from '../../../../../src/model/layergraph';
import { countBoxes, edgeId, Layout, layoutOf, Place } from '../../../../../src/views/designer/graph/graphlayout';
import { Layouter } from '../../../../../src/views/designer/graph/graphlayouter';
import { boxOf, drawnEdges } from '../../../../../src/views/designer/graph/graphappearance';
import { blocks, chain, layer } from '../../../graphs';

const apart = (a: Place, b: Place) =>
  a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;

describe('layoutOf', () => {
  it('keeps siblings apart and children inside, from top to bottom along the edges', () => {
    const tree = treeOf(blocks(4));
    const open = openAtFirst(tree);
    const root = boxOf(tree, open);
    const { places } = layoutOf(root);
    const visit = (box: typeof root) => {
      const inner = box.children.map(child => places[child.id]!);
      inner.forEach((place, i) => {
        inner.slice(i + 1).forEach(other => expect(apart(place, other)).toBe(true));
        const around = places[box.id]!;
        expect(place.x + place.width).toBeLessThanOrEqual(around.width);
        expect(place.y + place.height).toBeLessThanOrEqual(around.height);
      });
      box.children.forEach(visit);
    };
    visit(root);
    expect(places['block_1/up']!.y).toBeLessThan(places['block_1/drop']!.y);
  });

  it('breaks a long chain into columns', () => {
    const tree = treeOf(chain(Array.from({ length: 36 }, (_, i) => layer(`l${i}`, `K${i}`))));
    const { width, height } = layoutOf(boxOf(tree, new Set([tree.root.id]))).places[tree.root.id]!;
    expect(height / width).toBeLessThan(3);
    expect(width).toBeGreaterThan(400);
  });

  it('routes an edge around nodes between its ends', () => {
    const graph = chain([layer('a', 'A'), layer('b', 'B'), layer('c', 'C')]);
    graph.edges.push({ source: 'a', target: 'c', bytes: 1 });
    const tree = treeOf(graph);
    const { places, routes } = layoutOf(boxOf(tree, new Set([tree.root.id])));
    expect(Object.keys(routes)).toEqual([edgeId('a', 'c')]);
    const { x, y, width, height } = places['b']!;
    const beside = routes[edgeId('a', 'c')]!.points.filter(point => point.y >= y && point.y <= y + height);
    expect(beside.length).toBeGreaterThan(0);
    beside.forEach(point => expect(point.x < x || point.x > x + width).toBe(true));
  });

  it('reports its progress', () => {
    const tree = treeOf(blocks(4));
    const root = boxOf(tree, openAtFirst(tree));
    const told: number[] = [];
    layoutOf(root, done => told.push(done));
    expect(told).toEqual(Array.from({ length: countBoxes(root) }, (_, index) => index + 1));
  });
});

describe('drawnEdges', () => {
  it('merges edges between folded nodes, and sums the bytes between devices', () => {
    const tree = treeOf(blocks(12));
    const folded = new Set([tree.root.id]);
    const cuts = tree.graph.edges.map((_, index) => index);
    const edges = drawnEdges(tree, folded, cuts);
    expect(edges.map(edge => [edge.source, tree.nodes.get(edge.target)!.name, edge.cut])).toEqual([
      ['stem', 'block_0 … block_11', 0],
      [tree.root.children[1]!.id, 'head', 36]
    ]);
  });
});

class FakeWorker {
  onmessage: ((event: MessageEvent) => void) | null = null;
  onerror: ((event: ErrorEvent) => void) | null = null;
  postMessage = vi.fn();
  terminate = vi.fn();
  answer(layout: Layout): void {
    this.onmessage?.({ data: { type: 'layout', layout } } as MessageEvent);
  }
}

describe('Layouter', () => {
  const box = { id: '', width: 0, height: 0, children: [], edges: [] };

  it('cancels an older request when there is a newer one, and reuses an idle worker', () => {
    const workers: FakeWorker[] = [];
    const layouter = new Layouter(() => {
      workers.push(new FakeWorker());
      return workers.at(-1) as unknown as Worker;
    });
    const answers: string[] = [];
    const run = (name: string) =>
      layouter.run(
        box,
        () => answers.push(name),
        () => undefined,
        problem => answers.push(problem)
      );
    run('first');
    run('second');
    expect(workers[0]!.terminate).toHaveBeenCalled();
    workers[1]!.answer({ places: {}, routes: {} });
    run('third');
    expect(workers).toHaveLength(2);
    workers[1]!.answer({ places: {}, routes: {} });
    expect(answers).toEqual(['second', 'third']);
    run('fourth');
    workers[1]!.onerror?.({ message: 'broken' } as ErrorEvent);
    expect(answers.at(-1)).toBe('broken');
    expect(workers[1]!.terminate).toHaveBeenCalled();
  });
});
