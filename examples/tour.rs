fn main() {
    let c = leasehold::Client::open(&std::env::args().nth(1).unwrap()).unwrap();
    println!("{:?}", c.ping());
    let lock = c.lock("k").build().unwrap();
    let lease = lock.try_acquire().unwrap().unwrap();
    println!("{lease:?} {:?}", c.inspect("k"));
    assert!(lock.try_acquire().unwrap().is_none());
    println!("{:?}", lock.acquire_timeout(std::time::Duration::from_millis(100)));
    lease.verify().unwrap(); lease.renew().unwrap();
    lease.release().unwrap();
    let f = c.lock("f").fenced().build().unwrap();
    for _ in 0..3 { let l = f.acquire().unwrap(); println!("{:?} {}", l.fence(), l.fence().unwrap()); l.release().unwrap(); }
    let t = std::time::Instant::now();
    for _ in 0..10000 { lock.acquire().unwrap().release().unwrap(); }
    println!("{:?} per cycle", t.elapsed()/10000);
    println!("{:?}", c.stats());
}
