//! scratch
use std::time::Instant;
use gmp_runtime::*;
use std::sync::Arc; use std::sync::atomic::*;
fn main() {
    let what = std::env::args().nth(1).unwrap();
    let procs: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let n: u64 = 2_000_000;
    let rt = Runtime::builder().procs(procs).build().unwrap();
    unsafe { rt.run(move || {
        for _ in 0..5 {
        let t = Instant::now();
        match &what[..] {
            "yield" => { let hs: Vec<_> = (0..2).map(|_| go(move || for _ in 0..n { yield_now() })).collect(); for h in hs { h.join().unwrap() } println!("yield {:.1}", t.elapsed().as_nanos() as f64 / (2*n) as f64); }
            "pp" => { let (a, ar) = channel::<u64>(0); let (b, br) = channel::<u64>(0);
                go(move || for v in ar.iter() { b.send(v + 1).unwrap(); });
                for i in 0..n { a.send(i).unwrap(); assert_eq!(br.recv(), Ok(i + 1)); }
                println!("pp {:.1}", t.elapsed().as_nanos() as f64 / n as f64); }
            "buf" => { let (a, ar) = channel::<u64>(128);
                go(move || for i in 0..n { a.send(i).unwrap(); });
                let mut s = 0; for v in ar.iter() { s += v; } assert_eq!(s, n*(n-1)/2);
                println!("buf {:.1}", t.elapsed().as_nanos() as f64 / n as f64); }
            "spawn" => { let done = Arc::new(AtomicU64::new(0)); let d = Arc::as_ptr(&done) as usize;
                for i in 0..n { go(move || { (*(d as *const AtomicU64)).fetch_add(1, Ordering::Relaxed); }); if i % 64 == 63 { yield_now() } }
                while done.load(Ordering::Relaxed) < n { yield_now() }
                println!("spawn {:.1}", t.elapsed().as_nanos() as f64 / n as f64); }
            "spawnjoin" => { let mut hs = Vec::new();
                for i in 0..n { hs.push(go(move || i)); if i % 64 == 63 { for h in hs.drain(..) { h.join().unwrap(); } } }
                println!("spawnjoin {:.1}", t.elapsed().as_nanos() as f64 / n as f64); }
            "spawnall" => { let done = Arc::new(AtomicU64::new(0)); let d = Arc::as_ptr(&done) as usize; let n = n / 2;
                for _ in 0..n { go(move || { (*(d as *const AtomicU64)).fetch_add(1, Ordering::Relaxed); }); }
                while done.load(Ordering::Relaxed) < n { yield_now() }
                println!("spawnall {:.1}", t.elapsed().as_nanos() as f64 / n as f64); }
            "sleep" => { let hs: Vec<_> = (0..10_000u64).map(|i| go(move || { let s = Instant::now(); let d = std::time::Duration::from_millis(50 + i % 200); sleep(d); (s.elapsed() - d).as_micros() as u64 })).collect();
                let m = hs.into_iter().map(|h| h.join().unwrap()).max().unwrap(); println!("sleep max late {m} us total {:?}", t.elapsed()); }
            "sleep1" => { let mut v: Vec<u64> = (0..200).map(|_| { let s = Instant::now(); sleep(std::time::Duration::from_micros(100)); s.elapsed().as_nanos() as u64 - 100_000 }).collect(); v.sort(); println!("late p50 {} max {}", v[100], v[199]); }
            _ => panic!() }
        }
    }) }
}
